"""Scratch: the tool writes to a disk of the host, and what is to be kept comes back from there.

Raw files that are not to be kept become tables on the host that they were written on, in a folder
``converted.node<N>`` of the capture, which conversions go on with.
"""

import hashlib
import json
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from profkit.capture.base import Rank
from profkit.capture.harness.job import Job
from profkit.capture.harness.launch import launch, stoppable
from profkit.capture.harness.ranks import clock, rank_files
from profkit.capture.harness.record import capture_json, rank_warnings
from profkit.core import progress_events
from profkit.core.atomic_write import write_atomically
from profkit.core.capture_record import CONVERTED
from profkit.core.formatting import counted, size
from profkit.core.usable_cores import usable_cores
from profkit.process import caller_environment

_NAMES = "raw.json"
_CONVERSION = "convert.json"
_LOG = "convert.log"
# A file that is smaller tells nothing of a disk that is full.
_TRIED_BYTES = 1 << 20
_VARIABLE = re.compile(r"\$\{?\w+\}?")
_MOST_CORES = 4


def problem(job: Job) -> str:
    """Return why raw files cannot be written to the scratch of this host, or ""."""
    asked = job.run_settings.scratch
    if not asked:
        return ""
    where, host = _expanded(asked), socket.gethostname()
    if found := _VARIABLE.search(str(where)):
        return f"scratch={asked}: {host} has no environment variable {found[0].strip('${}')}"
    if not where.is_dir():
        return f"scratch={asked}: there is no such folder on {host}"
    try:
        with tempfile.TemporaryFile(dir=where) as file:
            os.posix_fallocate(file.fileno(), 0, _TRIED_BYTES)
    except OSError as error:
        return f"scratch={asked}: nothing can be written there on {host}: {error.strerror}"
    return ""


@contextmanager
def opened(job: Job) -> Iterator[Job]:
    """Yield `job` with a folder for raw files in the scratch, which is removed whatever happens."""
    if not job.run_settings.scratch:
        yield job
        return
    folder = _folder(job)
    with stoppable():
        remove(job)
        try:
            folder.mkdir(mode=0o700, parents=True)
            yield replace(job, spec=replace(job.spec, raw=str(folder)))
        finally:
            remove(job)


def remove(job: Job) -> None:
    """Remove what this capture has in the scratch of this host, or a killed attempt has left."""
    if job.run_settings.scratch:
        shutil.rmtree(_folder(job).parent, ignore_errors=True)


def bring_back(job: Job, *, is_good: bool) -> None:
    """Move the raw files of this host that are kept to the capture, and convert the others.

    All are kept of a capture that failed, or of a command, whose ranks are not known here.
    """
    out, folder = job.spec.folder, job.spec.raw_folder
    if folder == out:
        return
    keep = job.run_settings.keep_raw
    kept: Sequence[int] | None = None if keep == "all" else () if keep == "none" else keep
    if kept is not None and is_good and not job.launcher.finds_ranks:
        _convert(job, kept)
    for path in folder.iterdir():
        shutil.move(path, out / path.name)


def record(out: Path) -> list[dict[str, Any]]:
    """Return for each host what it wrote to its scratch and converted there."""
    paths = sorted(out.glob(f"{CONVERTED}*/{_NAMES}"))
    return [json.loads(path.read_bytes()) for path in paths]


def note(job: Job, records: Sequence[dict[str, Any]]) -> list[str]:
    """Return what was converted in the scratch and not kept, for readers of the capture."""
    settings = job.run_settings
    if settings.scratch and settings.keep_raw != "all" and job.launcher.finds_ranks:
        return ["Raw files came back from the scratch: only the end tells a command's ranks."]
    gone = [file for record in records for file in record["files"] if not file["is_kept"]]
    if not gone:
        return []
    total = size(sum(file["size_bytes"] for file in gone))
    where = counted(len(records), "host")
    became = f"{counted(len(gone), 'raw file')} of {total} became tables in the scratch of {where}"
    return [f"{became} and were not kept: keep_raw=all keeps them."]


def raw_bytes(job: Job, records: Sequence[dict[str, Any]]) -> int:
    """Return what the files of the tool take, those that became tables in a scratch as well."""
    out, patterns = job.spec.folder, job.tool.outputs
    here = {path for pattern in patterns for path in out.glob(f"rank{pattern}")}
    gone = [file for host in records for file in host["files"] if not file["is_kept"]]
    return sum(map(_bytes, here)) + sum(int(file["size_bytes"]) for file in gone)


def _expanded(asked: str) -> Path:
    # Snakemake and profkit set variables of their own: those meant are the caller's.
    known = caller_environment.restored()
    text = _VARIABLE.sub(lambda found: known.get(found[0].strip("${}"), found[0]), asked)
    return Path(text).expanduser().absolute()


def _folder(job: Job) -> Path:
    """Return the folder of this capture in the scratch, the same for every attempt."""
    # Hosts may share the scratch, and runs the name of a tool and a repeat.
    digest = hashlib.sha256(job.spec.out.encode()).hexdigest()[:12]
    name = f"profkit-{job.spec.tool}-{digest}-node{job.node.rank}"
    return _expanded(job.run_settings.scratch) / name / f"rep{job.spec.repeat}"


def _convert(job: Job, kept: Sequence[int]) -> None:
    """Convert the raw files of this host, and remove them but for those of the ranks `kept`."""
    out, folder = job.spec.folder, job.spec.raw_folder
    ranks = _named(job)
    if not ranks:
        return
    places = clock.collect(folder, ranks)
    notes = [*job.tool.finish(folder), *job.mask.files(folder, job.tool)]
    about = {"status": "ok", "repeat": job.spec.repeat, "settings": job.spec.settings}
    about |= {"ranks": [rank.label for rank in ranks], "places": places}
    (folder / capture_json.NAME).write_text(json.dumps(about))
    batch = out / f"{CONVERTED}{job.node.rank}"
    command = [sys.executable, "-m", "profkit.convert", job.spec.tool]
    command += ["--captures", str(folder), "--batch", str(batch)]
    command += ["--cores", str(min(usable_cores(), _MOST_CORES))]
    environment = {**os.environ, "PROFKIT_SCRATCH": job.spec.token}
    # Its progress is that of the capture.
    environment.pop(progress_events.VARIABLE, None)
    log = folder / _LOG
    ended = launch(command, environment, log, job.run_settings.timeout_s, job.spec.token)
    last = " ".join(capture_json.tail(log)[-1:])
    for path in (log, folder / capture_json.NAME, *folder.glob("*.steps.json")):
        path.unlink(missing_ok=True)
    read = {} if ended.exit_code else _read(batch)
    if not any(read.values()):
        shutil.rmtree(batch, ignore_errors=True)
        notes.append(f"Raw files came back, as they could not be converted in the scratch: {last}")
    else:
        unread = [name.partition(".")[0] for name, is_read in read.items() if not is_read]
        _write_names(batch, job, [*unread, *(rank.label for rank in ranks if rank.rank in kept)])
    for text in notes:
        rank_warnings.add(out, ranks[0], text)


def _named(job: Job) -> list[Rank]:
    """Rename the raw files by the coordinates of their ranks; return the ranks that have any."""
    out, folder = job.spec.folder, job.spec.raw_folder
    own = [rank for rank in job.spec.ranks() if any(folder.glob(f"{rank.label}.*"))]
    for rank in own:
        for path in (*out.glob(f"{rank.label}.steps.part"), *out.glob(f"{rank.label}.coord*.json")):
            shutil.copy(path, folder)
    return rank_files.rename_files(folder, own)[0]


def _read(batch: Path) -> dict[str, bool]:
    """Return the names of the raw files that `batch` was made of, and whether each was read."""
    parts = json.loads((batch / _CONVERSION).read_bytes())["parts"]
    return {Path(path).name: bool(part["folder"]) for path, part in parts.items()}


def _write_names(batch: Path, job: Job, kept: Sequence[str]) -> None:
    """Write which raw files the `batch` was made of, and remove those that are not `kept`."""
    files = []
    for path in sorted(job.spec.raw_folder.iterdir()):
        is_kept = path.name.partition(".")[0] in kept
        files.append({"name": path.name, "size_bytes": _bytes(path), "is_kept": is_kept})
        if not is_kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    about = {"host": socket.gethostname(), "folder": str(job.spec.raw_folder), "files": files}
    write_atomically(batch / _NAMES, json.dumps(about, indent=1).encode())


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())
