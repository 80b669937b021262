"""Examples of `recompilation`."""

from tests.patterns.recorded import causes

FOUND = {"causes": causes(("compiler", 0.09, "train.py(3): step"))}
EXPECTED = ("compiler", 90_000, 'TORCH_LOGS="recompiles"')
PASSED = {"other work": {"causes": causes(("python", 0.5, "compiler.py(3): run"))}}
