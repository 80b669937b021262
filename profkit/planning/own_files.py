"""Where something stands in the YAML files of the user's own: for the mistakes in them."""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from omegaconf import grammar_parser
from omegaconf.errors import GrammarParseError

from profkit.core import resources
from profkit.core.errors import ConfigError

_MOST_NODES = 100_000
_PACKAGE = re.compile(r"^#\s*@package\s+(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class OwnFile:
    """An option of the user's own, parsed no further than YAML does."""

    path: Path
    package: tuple[str, ...]
    """Keys that its content stands below."""

    root: yaml.Node

    def place(self, node: yaml.Node) -> str:
        """Return file and line of `node`."""
        return f"{self.path}:{node.start_mark.line + 1}"

    def node_at(self, keys: Sequence[str]) -> yaml.Node | None:
        """Return what stands at `keys`, or in the way to it; None if nothing does."""
        depth = len(self.package)
        if tuple(keys[:depth]) != self.package:
            return None
        node = self.root
        for key in keys[depth:]:
            if not isinstance(node, yaml.MappingNode):
                break
            found = [value for name, value in node.value if name.value == key]
            if not found:
                return None
            node = found[0]
        return node

    def scalars(self) -> Iterator[tuple[str, yaml.ScalarNode]]:
        """Yield all values with their keys."""
        yield from _scalars(self.root, self.package)


def chosen(overrides: Sequence[str]) -> list[OwnFile]:
    """Return the user's options that `overrides` name, or that such an option names."""
    folder = resources.own_conf()
    paths = {path for path in folder.rglob("*.yaml") if path.is_file()}
    texts = [*overrides]
    found: list[OwnFile] = []
    while named := {path for path in paths if _is_named(path.stem, texts)}:
        paths -= named
        files = [file for path in sorted(named) if (file := _parsed(path, folder))]
        texts = [str(yaml.serialize(file.root)) for file in files]
        found += files
    return found


def unread_main() -> Iterator[str]:
    """Yield a note if a file of the user's stands in the place of profkit's own config.yaml.

    One with other keys as well is that of a program that uses Hydra itself.
    """
    path = resources.own_conf() / "config.yaml"
    own, known = (_keys(file) for file in (path, resources.CONF / "config.yaml"))
    if path != resources.CONF / "config.yaml" and own and own <= known:
        yield (
            f"conf/{path.name} is not read ({', '.join(sorted(own)[:4])}): options of your own are"
            " files such as conf/experiment/NAME.yaml, chosen with +experiment=NAME"
        )


def _keys(path: Path) -> set[str]:
    if not path.is_file() or not (file := _parsed(path, path.parent)):
        return set()
    pairs = file.root.value if isinstance(file.root, yaml.MappingNode) else []
    return {str(key.value) for key, _ in pairs} - {"defaults", "hydra"}


def check_aliases(files: Sequence[OwnFile]) -> None:
    """Raise `ConfigError` for a file whose aliases make it endless, or larger than memory."""
    for file in files:
        if _size(file.root, {}) > _MOST_NODES:
            raise ConfigError(
                f"{file.path}: its aliases (*NAME) stand for more than {_MOST_NODES:,} values",
                hint="write what they stand for, where it is needed",
            )


def _size(node: yaml.Node, sizes: dict[int, float]) -> float:
    """Return of how many values `node` is made with all its aliases; infinite in a circle."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in sizes:
        sizes[id(node)] = math.inf
        parts = node.value if isinstance(node, yaml.SequenceNode) else itertools.chain(*node.value)
        sizes[id(node)] = 1 + sum(_size(part, sizes) for part in parts)
    return sizes[id(node)]


def place_of(key: str, files: Sequence[OwnFile]) -> str:
    """Return file and line of what gives `key` its value; "" if it is in none of `files`."""
    nodes = ((file, file.node_at(key.split("."))) for file in files)
    return next((file.place(node) for file, node in nodes if node is not None), "")


def misplaced(file: OwnFile, wanted: Iterable[tuple[tuple[str, ...], list[str]]]) -> str:
    """Say what stands in `file` where a section is `wanted`, one of `sections`; "" if nothing."""
    for keys, names in wanted:
        node = file.node_at(keys)
        if node is None or isinstance(node, yaml.MappingNode):
            continue
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a value"
        known = f"{', '.join(names[:4])}{', ...' if len(names) > 4 else ''}"  # noqa: PLR2004
        return f"{file.place(node)}: {'.'.join(keys)} is {kind} and has to be a section ({known})"
    return ""


def sections(
    values: object, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield the keys of each section of a configuration, and the names in it."""
    if isinstance(values, Mapping):
        if above:
            yield above, [str(name) for name in values]
        for name, value in values.items():
            yield from sections(value, (*above, str(name)))


def unreadable(files: Sequence[OwnFile]) -> str:
    """Return the first value of `files` that OmegaConf cannot read, with its place; "" if none."""
    scalars = ((file, key, node) for file in files for key, node in file.scalars())
    bad = ((file, key, node) for file, key, node in scalars if not is_readable(node.value))
    return next((f"{file.place(node)}: {key}: {node.value!r}" for file, key, node in bad), "")


def is_readable(text: str) -> bool:
    """Say whether OmegaConf can parse the interpolations in `text`."""
    try:
        grammar_parser.parse(text)
    except GrammarParseError:
        return "${" not in text
    return True


def _is_named(name: str, texts: Sequence[str]) -> bool:
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for text in texts)


def _parsed(path: Path, folder: Path) -> OwnFile | None:
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (UnicodeDecodeError, yaml.YAMLError):
        return None
    group = ".".join(path.parent.relative_to(folder).parts)
    header = _PACKAGE.search(text)
    package = header[1] if header else group
    keys = () if package == "_global_" else tuple(package.replace("_group_", group).split("."))
    start = yaml.Mark(str(path), 0, 0, 0, None, 0)
    nothing = yaml.ScalarNode("tag:yaml.org,2002:null", "", start, start)
    return OwnFile(path.relative_to(folder.parent), keys, root or nothing)


def _scalars(node: yaml.Node, keys: tuple[str, ...]) -> Iterator[tuple[str, yaml.ScalarNode]]:
    if isinstance(node, yaml.ScalarNode):
        yield ".".join(keys), node
    elif isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            yield from _scalars(value, (*keys, str(name.value)))
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _scalars(item, keys)
