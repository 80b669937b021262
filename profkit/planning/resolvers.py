"""Interpolations that read more than the configuration: the environment, and the time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from omegaconf import OmegaConf
from omegaconf.resolvers import oc

from profkit.core.errors import ConfigError


@contextmanager
def watched() -> Iterator[set[str]]:
    """Note in the set that this gives each environment variable that is read; refuse the time."""
    names: set[str] = set()

    def env(name: str, *default: Any) -> str | None:
        names.add(name)
        try:
            return oc.env(name, *default)
        except KeyError:
            raise ConfigError(
                f"the environment variable {name} is not set",
                hint=f"set it, or give a default: ${{oc.env:{name},value}}",
            ) from None

    OmegaConf.register_new_resolver("oc.env", env, replace=True)
    OmegaConf.register_new_resolver("now", _refuse_time, replace=True)
    try:
        yield names
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)


def _refuse_time(pattern: str) -> str:
    raise ConfigError(
        f"${{now:{pattern}}}: each job reads the plan, which must be the same at any time",
        hint=f"let the shell fill it in once: key=$(date '+{pattern}')",
    )
