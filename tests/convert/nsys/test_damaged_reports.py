"""Reports of Nsight Systems that are damaged, foreign, newer or empty."""

import gzip
import sqlite3
from contextlib import closing

import pytest

from profkit.convert.nsys import convert, export
from profkit.core.errors import InputError
from profkit.tables import schema
from tests.convert.nsys.reports import KERNEL, LAUNCH, STEPS, frames, raw


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "an empty file"),
        (b"x" * 5000, r"cannot export it: .*Exportation error"),
        (gzip.compress(b"SQLite format 3\0" * 99, mtime=0)[:40], "damaged gzip data"),
        (b"SQLite format 3\0" + b"x" * 5000, "damaged SQLite file"),
        (b"NVR\0\2", "a report of Nsight Compute, not a report.*\n.*profkit import ncu FILE"),
        (gzip.compress(b' {"traceEvents": [', mtime=0), "JSON, not a report"),
        (b"\x80\4\x95", "a Python pickle, not a report"),
        (b"version https://git-lfs.github.com/spec/v1\n", r"Git LFS, not a .*\n.*git lfs pull"),
        (b"\n<!DOCTYPE html>", "a web page, not a report"),
        (b"U3w[END]NVIDIA Nsight Systems Stream", "was not imported yet .*\n.*QdstrmImporter -i"),
    ],
    ids=[
        *("empty", "no report", "cut gzip", "damaged SQLite", "of Nsight Compute", "packed JSON"),
        *("pickle", "pointer of Git LFS", "web page", "recording"),
    ],
)
def test_damaged_files_are_named(tmp_path, content, says):
    path = tmp_path / "rank0_dp0_tp0_pp0.x.nsys-rep"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says) as error:
        convert.run(raw(path), tmp_path)
    assert str(path) in str(error.value)


def test_a_truncated_real_file_is_named(real_data, tmp_path):
    content = gzip.decompress((real_data / "nsys/mfu_2gpu_after.sqlite.gz").read_bytes())
    path = tmp_path / "rank0.nsys-rep"
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="damaged SQLite file"):
        convert.run(raw(path), tmp_path)


def test_what_sqlite_has_no_memory_for_is_damaged(real_data, tmp_path, monkeypatch):
    def out_of_memory(_):
        raise MemoryError

    monkeypatch.setattr("profkit.convert.nsys.store.SqliteStore", out_of_memory)
    path = tmp_path / "rank0.nsys-rep"
    path.write_bytes(gzip.decompress((real_data / "nsys/mfu_2gpu_after.sqlite.gz").read_bytes()))
    with pytest.raises(InputError, match="damaged SQLite file: its table of tables"):
        convert.run(raw(path), tmp_path)


def test_somebody_elses_sqlite_is_refused(tmp_path):
    path = tmp_path / "rank0.nsys-rep"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE cookies (id INTEGER)")
    with pytest.raises(InputError, match="not a report of Nsight Systems"):
        convert.run(raw(path), tmp_path)


def test_a_newer_layout_is_read_and_noted(report, tmp_path):
    path = report(
        nvtx=STEPS,
        META_DATA_EXPORT=[("EXPORT_SCHEMA_VERSION_MAJOR", "9")],
        calls=[LAUNCH],
        kernels=[KERNEL],
    )
    found, notes = frames(path, tmp_path)
    assert len(found["kernels"]) == 1
    assert notes[0].startswith("Exported with layout 9, newer than 3")


def test_a_table_without_times_is_of_an_unknown_version(report, tmp_path):
    path = report(nvtx=STEPS, os=[(1, 2, "read")])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE OSRT_API RENAME COLUMN end TO finish")
    with pytest.raises(InputError, match="table OSRT_API has no column end"):
        convert.run(raw(path), tmp_path)


def test_an_empty_report_gives_empty_tables(report, tmp_path):
    found, notes = frames(report(), tmp_path)
    assert {name: len(table) for name, table in found.items()} == dict.fromkeys(found, 0)
    assert set(found) == set(convert.produces) <= set(schema.TABLES)
    assert notes == ["The report holds no kernel, copy or set: CUDA was not recorded."]


TOO_NEW = (
    "Installed CUDA driver version (13.1) is not supported by this build of Nsight Systems. CUDA"
    " trace will be collected using libraries for driver version 12.8"
)
INVALID = "ActivityFlushAll returned 2: CUPTI_ERROR_INVALID_DEVICE"


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        ([(2, TOO_NEW), (3, INVALID)], f"{TOO_NEW}; {INVALID}: record with a newer nsys."),
        ([(3, INVALID.replace(": ", ":\n ")), (3, INVALID)], f"{INVALID}."),
        ([(3, "CUDA " + "x" * 900)], f"CUDA {'x' * 192}."),
        ([(1, INVALID), (2, "No CUDA events collected. Does the process use CUDA?")], ""),
        ([(2, "Unable to collect CPU kernel samples.")], ""),
    ],
)
def test_where_cuda_was_not_recorded_nsys_says_why(report, tmp_path, said, quoted):
    path = report()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE DIAGNOSTIC_EVENT (severity INTEGER, text TEXT)")
        connection.executemany("INSERT INTO DIAGNOSTIC_EVENT VALUES (?, ?)", said)
    _, notes = frames(path, tmp_path)
    assert notes[1:] == ([f"nsys says of CUDA: {quoted}"] if quoted else [])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cudaLaunchKernel_v7000", "CUDA calls were recorded, but not the work of the GPU."),
        ("cudaMemcpy_v3020", "CUDA calls were recorded, but not the work of the GPU."),
        ("cudaGetDevice_v3020", "traced, and either no GPU was used or the report was cut short."),
    ],
)
def test_calls_without_work_on_a_gpu_show_that_cuda_was_traced(report, tmp_path, name, why):
    _, notes = frames(report(calls=[(*LAUNCH[:2], name, *LAUNCH[3:])]), tmp_path)
    assert notes[0].startswith("The report holds no kernel, copy or set: ")
    assert notes[0].endswith(why)


# As nsys 2022.4 prints where it cannot parse a part of a report; what it wrote until then is left.
FAILING = """\
#!/bin/sh
case "$*" in
*--version*) echo "NVIDIA Nsight Systems version 2022.4.2.1-df9881f" ;;
*--help*) echo "--type= sqlite, hdf, text, json --output=" ;;
export*) cp {left} "${{3#--output=}}"
    echo "Dynamic exception type: boost::wrapexcept<QuadDCommon::ProtobufParseException>" >&2
    echo "std::exception::what: ProtobufParseException" >&2
    exit 1 ;;
esac
"""


@pytest.fixture
def failing(tmp_path, monkeypatch):
    """Return a report that an nsys cannot export, which leaves the SQLite file it is given."""

    def report_of(left):
        binary, path = tmp_path / "nsys", tmp_path / "rank0.nsys-rep"
        binary.write_text(FAILING.format(left=left))
        binary.chmod(0o755)
        monkeypatch.setattr(export, "nsys", lambda: str(binary))
        path.write_bytes(b"not SQLite at all")
        return path

    return report_of


def test_a_report_of_which_nsys_exports_no_event_is_refused(failing, tmp_path):
    left = tmp_path / "left.sqlite"
    with closing(sqlite3.connect(left)) as connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    says = r"nsys 2022.4.2.1 cannot export it: ProtobufParseException\n.*the nsys that wrote it"
    with pytest.raises(InputError, match=says):
        convert.run(raw(failing(left)), tmp_path)


def test_what_nsys_exports_before_it_fails_is_kept(failing, report, tmp_path):
    tables, notes = frames(failing(report(calls=[LAUNCH], kernels=[KERNEL])), tmp_path)
    assert len(tables["kernels"]) == 1
    says = "nsys failed while it exported this, and what it did not reach is missing:"
    assert f"{says} ProtobufParseException" in notes


def test_without_nsys_sqlite_is_read_and_reports_are_refused(report, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    path = report(nvtx=STEPS)
    _, notes = frames(path, tmp_path)
    assert "nsys is not installed: its own reports as CSV are left out." in notes
    other = tmp_path / "rank1.nsys-rep"
    other.write_bytes(b"not SQLite at all")
    with pytest.raises(InputError, match="which can export it, is not installed"):
        convert.run(raw(other), tmp_path)
