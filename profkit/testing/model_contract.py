"""What profkit asks of every family of models, with its default sizes, which are to be small."""

from types import ModuleType

from profkit.testing.settings_contract import check_settings, require
from profkit.workloads.models.base import ModelFamily, Sample


def check_model(module: ModuleType) -> None:
    """Raise `AssertionError` where the family in `module` breaks the contract."""
    for check in MODEL_CHECKS:
        check(module)


def is_documented(module: ModuleType) -> None:
    """Check that the module says what the model is, and its settings what they mean."""
    first = (module.__doc__ or "").strip().partition("\n")[0]
    require(first.endswith("."), f"{module.__name__}: its docstring begins with no sentence")
    check_settings(type(_family(module)))


def counts_its_parameters(module: ModuleType) -> None:
    """Check that `parameters` says what `build` makes; None stands for what only building tells."""
    import torch  # noqa: PLC0415 - takes seconds

    family = _family(module)
    with torch.device("meta"):
        count = sum(weight.numel() for weight in family.build().parameters())
    require(
        family.parameter_count() in (count, None),
        f"{family.parameter_count()} parameters, not {count}",
    )


def learns(module: ModuleType) -> None:
    """Check that one batch gives one finite loss, and every parameter a gradient."""
    import torch  # noqa: PLC0415 - takes seconds

    torch.manual_seed(0)
    family = _family(module)
    network = family.build()
    inputs, target = _batch(family, 3)
    loss = family.loss(network(**inputs), target)
    loss.backward()  # type: ignore[no-untyped-call]
    require(loss.shape == () and torch.isfinite(loss), f"the loss is {loss}, not one number")
    weights = network.named_parameters()
    lazy = [name for name, weight in weights if weight.grad is None or not weight.grad.any()]
    require(not lazy, f"no gradient reaches {', '.join(lazy)}")


def repeats_its_samples(module: ModuleType) -> None:
    """Check that the generator alone decides about a sample."""
    import torch  # noqa: PLC0415 - takes seconds

    first, second = (_batch(_family(module), 1) for _ in range(2))
    torch.testing.assert_close(first, second)


MODEL_CHECKS = (is_documented, counts_its_parameters, learns, repeats_its_samples)
"""What `check_model` checks, one after the other."""


def _batch(family: ModelFamily, size: int) -> Sample:
    import torch  # noqa: PLC0415 - takes seconds
    from torch.utils.data import default_collate  # noqa: PLC0415

    generator = torch.Generator().manual_seed(0)
    batch: Sample = default_collate([family.sample(generator) for _ in range(size)])
    return batch


def _family(module: ModuleType) -> ModelFamily:
    family: ModelFamily = module.Model()
    return family
