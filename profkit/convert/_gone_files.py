"""Raw files that hosts converted in their scratch and did not keep: tables are all there is."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from profkit.convert._join_parts import Part
from profkit.convert._parts_of_ranks import converted_files, copy_files, read_parts
from profkit.convert.base import Raw
from profkit.core import registry
from profkit.core.capture_record import CONVERTED
from profkit.core.errors import InputError
from profkit.core.fingerprint import provenance
from profkit.core.job_record import CONVERSION, read_job

_SHOWN = 3


def gone_files(folder: Path) -> list[Path]:
    """Return the raw files of the capture in `folder` of which only the tables were kept."""
    made = (path for batch in _batches([folder]) for path in converted_files(batch))
    return [path for path in made if not (folder / path.name).is_file()]


def apart(raws: Sequence[Raw], captures: Iterable[Path]) -> tuple[list[Raw], list[Raw]]:
    """Return those of the raw files that are there, and those that are gone."""
    gone = {path for folder in captures for path in gone_files(folder)}
    return [raw for raw in raws if raw.path not in gone], [raw for raw in raws if raw.path in gone]


def parts_of(tool: str, gone: Sequence[Raw], captures: Iterable[Path], files: Path) -> list[Part]:
    """Return what hosts made of the files that are `gone`, and copy to `files` what to open.

    Raises `InputError` if it was made by other code than that of today.
    """
    if not gone:
        return []
    batches = [*_batches(captures)]
    code = provenance("profkit.convert", registry.converter_module(tool), {}, {})
    _check_code(batches, code.modules, {raw.path for raw in gone})
    copy_files(batches, files)
    return read_parts(gone, batches)


def _batches(captures: Iterable[Path]) -> Iterator[Path]:
    """Yield what each host made of its raw files."""
    for folder in captures:
        yield from sorted(folder.glob(f"{CONVERTED}*"))


def _check_code(
    batches: Iterable[Path], modules: Mapping[str, str], gone: Collection[Path]
) -> None:
    for batch in batches:
        made = read_job(batch / CONVERSION).provenance.modules
        changed = [
            name for name in sorted({*made, *modules}) if made.get(name) != modules.get(name)
        ]
        if changed and {*gone} & {*converted_files(batch)}:
            raise InputError(
                f"{batch}: its raw files were converted in the scratch of their host and not kept,"
                f" and the converter has changed since: {', '.join(changed[:_SHOWN])}",
                hint=f"delete {batch.parent}/capture.json to capture again; with keep_raw=all, raw"
                " files are kept, and converted again when that is needed",
            )
