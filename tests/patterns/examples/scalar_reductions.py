"""Examples of `scalar_reductions`."""

from tests.patterns.recorded import causes, collective

EXPOSED = causes(("exposed_communication", 0.2, ""))


def reduced(elements):
    return [
        collective(0, "allreduce", in_elements=elements),
        collective(1, "allreduce", in_elements=1_000_000, end_ns=3_000),
    ]


FOUND = {"collectives": reduced(1), "causes": EXPOSED}
EXPECTED = ("exposed_communication", 50_000, "every 100 steps")
PASSED = {
    "gradients": {"collectives": reduced(4096), "causes": EXPOSED},
    "hidden": {"collectives": reduced(1)},
}
