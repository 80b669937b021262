"""A command as someone typed it: as an override that keeps every word, and its number of ranks."""

import math
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from profkit.core import resources
from profkit.core.errors import ConfigError
from profkit.core.formatting import counted
from profkit.core.yaml_files import read_yaml
from profkit.planning.configuration import Configuration

_INTERPOLATION = re.compile(r"(\\*)\$\{([^{}$]*)")
_ADDED = re.compile(r"\+\+?(\w+)[.=]")
_SECTIONS = ("model", "zero", "launcher", "parallel")

# Options of the programs that start ranks: the product of their values is the number of ranks. The
# first of each must be there.
_TORCHRUN = (("--nproc-per-node", "--nproc_per_node"), ("--nnodes",))
_ACCELERATE = (("--num_processes", "--num-processes", "-n"),)
_DEEPSPEED = (("--num_gpus",), ("--num_nodes",))
_MPIRUN = (("-np", "-n", "--np", "-c"),)
_STARTERS = {
    "torchrun": _TORCHRUN,
    "torch.distributed.run": _TORCHRUN,
    "torch.distributed.launch": _TORCHRUN,
    "accelerate": _ACCELERATE,
    "accelerate.commands.launch": _ACCELERATE,
    "deepspeed": _DEEPSPEED,
    "deepspeed.launcher.runner": _DEEPSPEED,
    "mpirun": _MPIRUN,
    "mpiexec": _MPIRUN,
    "srun": (("-n", "--ntasks"),),
}


def as_override(words: Sequence[str], overrides: Sequence[str]) -> str:
    r"""Return the override that makes `words` the command of a script, each of them as it is.

    A ``${key}`` in them is a value of the configuration, if there is such a key in it or among
    those that `overrides` add; every other one is text, and so is ``\${key}``.
    """
    added = {found[1] for word in overrides if (found := _ADDED.match(word))}
    text = shlex.join(_as_text(word, {*_scalars(), *added}) for word in words)
    # In Hydra's quotes, backslashes count before a quote alone.
    text = re.sub(r'(\\*)"', lambda found: f'{found[1] * 2}\\"', text)
    text = re.sub(r"(\\+)$", lambda found: found[1] * 2, text)
    return f'workload.command="{text}"'


def _scalars() -> list[str]:
    values = read_yaml(resources.CONF / "config.yaml")
    return [key for key, value in values.items() if not isinstance(value, Mapping | list)]


def _as_text(word: str, scalars: Collection[str]) -> str:
    """Return `word` so that each ``${`` in it is text that does not name a value."""

    def kept(found: re.Match[str]) -> str:
        slashes, name = found[1], found[2]
        section, dot, _ = name.partition(".")
        is_closed = "}" in word[found.end() :]
        is_key = name in scalars or (dot and (section in scalars or section in _SECTIONS))
        if is_closed and (is_key or (name.startswith("oc.") and ":" in name)):
            return found[0]
        return f"{slashes * 2}\\${{{name}"

    return _INTERPOLATION.sub(kept, word)


def named_ranks(words: Sequence[str]) -> int | None:
    """Return the number of ranks that the command `words` names; None if that shows as it runs."""
    for position, word in enumerate(words):
        if options := _STARTERS.get(PurePath(word).name):
            return _product(words[position + 1 :], options)
    return None


def _product(words: Sequence[str], options: Sequence[Sequence[str]]) -> int | None:
    found = [_value(words, names) for names in options]
    if not (found[0] or "").isdigit():
        return None
    numbers = [int(value) for value in found if value and value.isdigit()]
    return math.prod(numbers) or None


def _value(words: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the value of the option with one of the `names` before the program begins."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.endswith(".py"):
            return None
        name, is_set, value = word.partition("=")
        if name in names:
            return value if is_set else following
    return None


def with_named_ranks(config: Configuration, overrides: Sequence[str]) -> Configuration:
    """Return `config` with the number of ranks that a command names which is started as it is.

    One that names none is one rank until it runs, unless `overrides` say otherwise; raises
    `ConfigError` where these contradict it.
    """
    if config.launcher["name"] != "command":
        return config
    command = config.workload.get("command", "")
    try:
        words = shlex.split(command) if isinstance(command, str) else None
    except ValueError:
        words = None
    if words is None:
        return config  # the workload's own check says what is wrong
    is_given = any(word.partition("=")[0] == "world_size" for word in overrides)
    named = named_ranks(words)
    if is_given and named and named != config.world_size:
        raise ConfigError(
            f"world_size={config.world_size}, but the command starts {counted(named, 'rank')}",
            hint="leave world_size out, or write ${world_size} into the command",
        )
    return replace(config, world_size=named or (config.world_size if is_given else 1))
