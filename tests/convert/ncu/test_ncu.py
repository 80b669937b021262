"""Nsight Compute's reports and pages as tables, with the values that ncu itself exports."""

import csv
import io
import json
import math
import shutil

import pyarrow.parquet as pq
import pytest

from profkit.convert.__main__ import main
from profkit.convert.base import Raw
from profkit.convert.ncu import convert, report, report_blocks, report_or_page
from profkit.convert.ncu.launches import plain
from profkit.convert.ncu.units import base_unit
from profkit.core.errors import InputError
from profkit.planning.imported_runs import import_kinds
from profkit.tables import schema

LABEL = "rank1_dp1_tp0_pp0"
EXPORTED = ("rtx2080ti_2022.3", "a10g_2023.1")
REPORTS = {
    "rtx2080ti_2022.3": ("NVIDIA GeForce RTX 2080 Ti", "7.5", 2),
    "a10g_2023.1": ("NVIDIA A10G", "8.6", 4),
    "a100_2024.1": ("NVIDIA A100 80GB PCIe", "8.0", 3),
    "rtx2060_2024.3": ("NVIDIA GeForce RTX 2060 with Max-Q Design", "7.5", 8),
}
# Of no launch: what the machine that exported had, or curves that pages print in words.
OF_THE_EXPORT = ("device__", "nvlink__", "numa__", "ID", "Process", "Host", "Kernel", "Context")


@pytest.fixture(scope="module")
def read(real_data):
    """Return a function that reads a file of the shared data, each once."""
    known = {}

    def launches(name):
        if name not in known:
            known[name] = report_or_page.read(real_data / "ncu" / name)
        return known[name]

    return launches


def values(launch):
    return {metric.name: metric.text or metric.value for metric in launch.metrics}


def exported_rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def as_exported(value, text, unit):
    """Say whether `value`, in the unit of a report, is what ncu printed as `text` in `unit`."""
    if isinstance(value, str):
        return text in (value, value.removeprefix("cudaFunc")) or value in text
    digits = len(text.partition(".")[2])
    # Two roundings: of what is printed, and of what was stored as a float of 32 bits.
    return math.isclose(
        value / base_unit(unit)[0], float(text), abs_tol=0.51 * 10**-digits, rel_tol=1e-6
    )


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_of_each_version_names_its_device_and_launches(read, name):
    device, capability, count = REPORTS[name]
    launches = read(f"{name}.ncu-rep")
    assert len(launches) == count
    assert {(launch.device_name, launch.capability) for launch in launches} == {
        (device, capability)
    }
    assert all(len(launch.grid) == len(launch.block) == 3 for launch in launches)
    assert all(values(launch)["gpu__time_duration.sum"] > 0 for launch in launches)


@pytest.mark.parametrize("name", EXPORTED)
def test_every_metric_of_the_raw_page_is_that_of_the_report(read, real_data, name):
    units, *rows = exported_rows(real_data / "ncu" / f"{name}.raw.csv")
    launches = read(f"{name}.ncu-rep")
    assert [launch.name for launch in launches] == [row["Kernel Name"] for row in rows]
    compared = 0
    for row, launch in zip(rows, launches, strict=True):
        known = values(launch)
        for metric, text in row.items():
            if metric.startswith(OF_THE_EXPORT) or metric == "Stream" or text in ("", "no data"):
                continue
            assert as_exported(known[metric], text, units[metric]), (metric, known[metric], text)
            compared += 1
    assert compared >= 70 * len(rows)


@pytest.mark.parametrize("name", EXPORTED)
def test_every_metric_of_the_details_page_is_that_of_the_report(read, real_data, name):
    launches = read(f"{name}.ncu-rep")
    compared = 0
    for row in exported_rows(real_data / "ncu" / f"{name}.details.csv"):
        if row["Metric Name"]:
            metric = report_or_page.exported_page.metric_name(
                row["Section Name"], row["Metric Name"]
            )
            value = values(launches[int(row["ID"])])[metric]
            assert as_exported(value, row["Metric Value"], row["Metric Unit"]), (metric, value)
            compared += 1
    assert compared == {"rtx2080ti_2022.3": 56, "a10g_2023.1": 40}[name]


@pytest.mark.parametrize("page", ["raw", "details"])
@pytest.mark.parametrize("name", EXPORTED)
def test_a_page_gives_the_launches_and_values_of_its_report(read, name, page):
    launches, exported = read(f"{name}.ncu-rep"), read(f"{name}.{page}.csv")
    assert [(launch.name, launch.function) for launch in exported] == [
        (launch.name, launch.function) for launch in launches
    ]
    for mine, theirs in zip(exported, launches, strict=True):
        known = values(theirs)
        compared = {
            metric: (value, known[metric])
            for metric, value in values(mine).items()
            if metric in known and isinstance(value, float) and not metric.startswith("device__")
        }
        assert len(compared) > 9
        for metric, (value, expected) in compared.items():
            if not metric.startswith(("nvlink__", "numa__")):
                # Pages round: a second of two digits, say.
                assert math.isclose(value, expected, rel_tol=0.006, abs_tol=0.006), metric


def test_rules_of_reports_and_pages_are_kept_with_their_estimates(read):
    limits = read("rtx2080ti_2022.3.details.csv")[0].advice
    assert [(rule.section, rule.rule, rule.kind) for rule in limits] == [
        ("SpeedOfLight", "SOLBottleneck", "information"),
        ("Occupancy", "Occupancy", "information"),
    ]
    imbalance = read("rtx2060_2024.3.ncu-rep")[0].advice[1]
    assert (imbalance.rule, imbalance.kind, imbalance.title) == (
        "WorkloadImbalance",
        "optimisation",
        "L2 Slices Workload Imbalance",
    )
    assert imbalance.speedup_percent == pytest.approx(10.992193, abs=1e-6)
    assert imbalance.speedup_scope == "global"
    occupancy = read("rtx5090_kernel_0001/ncu.section_Occupancy.csv")[0].advice[0]
    assert (occupancy.speedup_percent, occupancy.speedup_scope) == (80.34, "global")


def test_messages_of_rules_lose_their_links_and_keep_their_words():
    text = "See @section:LaunchStats:Launch Statistics@ and @url:the guide:https://x.y/z#a@."
    assert plain(text) == "See Launch Statistics and the guide."
    assert plain("at @source:a.cu:12:line 12@, @sass:0x10:here@") == "at line 12, here"


def test_pages_of_sections_state_shape_device_and_process(read):
    pages = ("MemoryWorkloadAnalysis", "Occupancy", "SchedulerStats", "SpeedOfLight")
    for page in (*pages, "SpeedOfLight_RooflineChart"):
        (launch,) = read(f"rtx5090_kernel_0001/ncu.section_{page}.csv")
        assert (launch.block, launch.grid) == ([32, 4, 1], [224, 1, 1])
        assert (launch.pid, launch.launch, launch.capability) == (1740670, 0, "12.0")
        assert launch.function == "kernel"
    memory = values(read("rtx5090_kernel_0001/ncu.section_MemoryWorkloadAnalysis.csv")[0])
    light = values(read("rtx5090_kernel_0001/ncu.section_SpeedOfLight.csv")[0])
    # One label, two metrics.
    assert memory["dram__bytes.sum.per_second"] > 1e8
    assert light["gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"] <= 100


def test_ranges_of_the_program_come_along(read):
    assert read("a100_2024.1.ncu-rep")[0].ranges == ["Non-fused-GEMM"]


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("usecond", (1e3, "ns")),
        ("us", (1e3, "ns")),
        ("second", (1e9, "ns")),
        ("Kbyte/block", (1e3, "byte/block")),
        ("Gbyte/second", (1e9, "byte/s")),
        ("Mbyte/s", (1e6, "byte/s")),
        ("cycle/nsecond", (1e9, "hz")),
        ("Ghz", (1e9, "hz")),
        ("hz", (1.0, "hz")),
        ("register/thread", (1.0, "register/thread")),
        ("%", (1.0, "%")),
        ("", (1.0, "")),
    ],
)
def test_units_lose_their_factor(unit, expected):
    assert base_unit(unit) == expected


def test_lines_before_the_heading_and_grouped_digits_are_read(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(
        "==PROF== Connected to process 7\n"
        '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream",'
        '"Section Name","Metric Name","Metric Unit","Metric Value"\n'
        '"3","7","a","h","f<1>(int)","1","7","S","Elapsed Cycles","cycle","1,594,443"\n'
    )
    (launch,) = report_or_page.read(path)
    assert (launch.launch, launch.pid, launch.function) == (3, 7, "f")
    assert values(launch) == {"gpc__cycles_elapsed.max": 1594443.0}


def saved(text, delimiter=","):
    """Return a page as a table program saves it again."""
    out = io.StringIO()
    rows = csv.reader(io.StringIO(text))
    csv.writer(out, delimiter=delimiter).writerows(rows)
    return out.getvalue()


HANDLED = {
    "with a byte order mark": lambda text: text.encode("utf-8-sig"),
    "redirected by PowerShell": lambda text: text.replace("\n", "\r\n").encode("utf-16"),
    "saved without quotes": lambda text: saved(text).encode(),
    "saved with semicolons": lambda text: saved(text, ";").encode(),
    "with lines of the program": lambda text: (
        "\n".join(['say "5', *text.splitlines()[:3], "loss, 3.2", *text.splitlines()[3:]])
        + "\nDone, total 3.2 s\n==PROF== Disconnected\n"
    ).encode(),
}


@pytest.mark.parametrize("page", ["raw", "details"])
@pytest.mark.parametrize("how", HANDLED)
def test_a_page_that_went_through_other_programs_is_the_same(real_data, tmp_path, how, page):
    source = real_data / f"ncu/a10g_2023.1.{page}.csv"
    path = tmp_path / "x.csv"
    path.write_bytes(HANDLED[how](source.read_text()))
    assert report_or_page.read(path) == report_or_page.read(source)
    assert not report_or_page.is_cut_off(path)


@pytest.mark.parametrize("page", ["raw", "details"])
def test_pages_in_one_file_are_read_one_after_the_other(real_data, tmp_path, page):
    source = real_data / f"ncu/a10g_2023.1.{page}.csv"
    path = tmp_path / "x.csv"
    path.write_text(source.read_text() * 2)
    assert report_or_page.read(path) == report_or_page.read(source) * 2


def test_half_a_value_is_none_and_a_page_that_ends_in_it_is_cut_off(tmp_path):
    path = tmp_path / f"{LABEL}.csv"
    path.write_text(
        '"ID","Process ID","Kernel Name","gpu__time_duration.sum","launch__grid_size"\n'
        '"","","","nsecond",""\n"0","7","f","4,100","128"\n"1","7","g","9,200","12'
    )
    raw = Raw(path=path, label=LABEL, rank=1, repeat=0)
    made = convert.run(raw, tmp_path)
    metrics = made.tables["kernel_metrics"].select(["name", "metric", "value"]).to_pylist()
    assert [tuple(row.values()) for row in metrics] == [
        ("f", "gpu__time_duration.sum", 4100.0),
        ("f", "launch__grid_size", 128.0),
        ("g", "gpu__time_duration.sum", 9200.0),
    ]
    assert [note.partition(":")[0] for note in made.notes] == [
        "The file is cut off",
        "1 metric is not known of every launch",
    ]


PAGE_HEADING = '"ID","Process ID","Kernel Name","Stream","Block Size","CC","t.sum","n","s"'
UNITS = '"","","","","","","us","","%"'
CELLS = ("0", "7", "f", "7", "(1, 1, 1)", "9.0", "1.5", "4", "50")


@pytest.mark.parametrize(
    ("column", "cell", "note"),
    [
        (0, "", "1 row of the page states no ID of a launch and was left out."),
        (0, "x", "1 row of the page states no ID of a launch and was left out."),
        (0, "1", "1 launch stands in the file twice, by its ID: both count."),
        (1, "-7", "1 value of Process ID on the page is unreadable: unknown."),
        (3, "", "1 value of Stream on the page is unreadable: unknown."),
        (3, "9" * 40, "1 value of Stream on the page is unreadable: unknown."),
        (4, "(1, 1)", "1 value of Block Size on the page is unreadable: unknown."),
        (5, "nine", "1 value of CC on the page is unreadable: unknown."),
        (6, "soon", "1 value of metrics is a word where other launches have numbers."),
        (6, "1.024,5", "1 value of metrics is a number in another notation"),
        (8, "5000", "1 value of metrics is above 1,000 %."),
        (6, "-2", "1 value of metrics is below 0."),
        (8, "-2", "1 value of metrics is below 0."),
        (6, "", "1 metric is not known of every launch: t.sum."),
        (7, "n/a", "1 metric is not known of every launch: n."),
        (2, "caf\udce9", "1 value on the page holds what is no text"),
        (7, '4","8', "1 row of the page has more values than its heading has columns."),
    ],
)
def test_what_is_wrong_with_a_page_is_said(tmp_path, column, cell, note):
    path = tmp_path / f"{LABEL}.csv"
    rows = [[str(at + 1), *CELLS[1:]] for at in range(3)]
    raw = Raw(path=path, label=LABEL, rank=1, repeat=0)
    for changed in (False, True):
        if changed:
            rows[1] = [*rows[1]]
            rows[1][column] = cell
        quoted = [",".join(f'"{cell}"' for cell in row) for row in rows]
        text = "\n".join(
            ["==PROF== Connected, to 7", PAGE_HEADING, UNITS, *quoted, "==PROF== Done"]
        )
        path.write_text(text, errors="surrogateescape")
        notes = convert.run(raw, tmp_path).notes
        assert [said.startswith(note) for said in notes] == [True] * changed


def test_sums_of_a_table_and_differences_of_counters_are_not_called_wrong(tmp_path):
    path = tmp_path / f"{LABEL}.csv"
    heading = '"ID","Process ID","Kernel Name","derived__pct_occupancy","sm__pipe.min.pct"'
    path.write_text(f'{heading}\n"","","","%","%"\n"0","7","f","5485","-0.0143"\n')
    assert convert.run(Raw(path=path, label=LABEL, rank=1, repeat=0), tmp_path).notes == ()


MEASURED = {
    "ID": ("", "0"),
    "Process ID": ("", "7"),
    "Kernel Name": ("", "f"),
    "Block Size": ("", "(32, 1, 1)"),
    "CC": ("", "9.0"),
    "gpu__time_duration.sum": ("us", "1.5"),
    "dram__bytes.sum.per_second": ("Gbyte/second", "2"),
    "sm__warps.pct": ("%", "50"),
    "launch__block_size": ("", "32"),
    "launch__registers_per_thread": ("register/thread", "32"),
    "device__attribute_compute_capability_major": ("", "9"),
    "device__attribute_compute_capability_minor": ("", "0"),
}
CONTRADICTED = "1 launch states a grid, block or capability that others contradict."


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        ({}, ""),
        ({"sm__warps.pct": ("furlong", "50")}, "Metrics have units that are not known: furlong."),
        ({"sm__warps.pct": ("byte", "50")}, "1 metric has a unit that is not its own: sm__warps"),
        ({"dram__bytes.sum.per_second": ("ns", "2")}, "1 metric has a unit that is not its own"),
        ({"launch__block_size": ("", "64")}, CONTRADICTED),
        ({"CC": ("", "3.5")}, CONTRADICTED),
        (
            {"Block Size": ("", "(64, 64, 1)"), "launch__block_size": ("", "4096")},
            "1 launch has more threads in a block, or registers, than any GPU.",
        ),
        (
            {"launch__registers_per_thread": ("register/thread", "3000")},
            "1 launch has more threads in a block, or registers, than any GPU.",
        ),
        ({"gpu__time_duration.sum": ("us", "0")}, "1 launch has a duration that no kernel has."),
    ],
)
def test_what_contradicts_itself_on_a_page_is_said(tmp_path, changed, note):
    path = tmp_path / f"{LABEL}.csv"
    cells = MEASURED | changed
    rows = ([*cells], *zip(*cells.values(), strict=True))
    path.write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in rows))
    notes = convert.run(Raw(path=path, label=LABEL, rank=1, repeat=0), tmp_path).notes
    assert any(said.startswith(note) for said in notes) if note else not notes, notes


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        (f"{UNITS}\n", "", "The page has no row of units: its values count as they stand."),
        (
            '"n"',
            '"t.sum"',
            "1 column of the page has the name of an earlier one: the last counts.",
        ),
    ],
)
def test_what_is_wrong_with_the_head_of_a_page_is_said(tmp_path, old, new, note):
    path = tmp_path / f"{LABEL}.csv"
    page = "\n".join([PAGE_HEADING, UNITS, ",".join(f'"{cell}"' for cell in CELLS)])
    path.write_text(page.replace(old, new))
    (said,) = convert.run(Raw(path=path, label=LABEL, rank=1, repeat=0), tmp_path).notes
    assert said.startswith(note)


def test_ranges_in_pages_are_those_around_the_launch(tmp_path):
    pushed = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    started = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    nothing = ":none" * 6
    rows = [
        ["ID", "Process ID", pushed, started, "Kernel Name", "launch__grid_size"],
        [""] * 6,
        [
            *("0", "7", f'1  "<default domain>:step 0{nothing}"  "profkit:h:0{nothing}" '),
            *(f'4  "<default domain>:x{nothing}"', "f", "2"),
        ],
        ["1", "7", "", "", "g", "3"],
    ]
    path = tmp_path / "x.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    launches = report_or_page.read(path)
    assert [launch.ranges for launch in launches] == [["step 0", "h:0"], []]
    assert [values(launch) for launch in launches] == [
        {"launch__grid_size": 2.0},
        {"launch__grid_size": 3.0},
    ]


def test_labels_of_the_first_versions_are_those_of_the_same_metrics():
    section = "GPU Speed Of Light"
    labels = ("SOL DRAM", "SOL L1/TEX Cache", "SOL L2 Cache", "SM [%]", "Memory [%]")
    found = [report_or_page.exported_page.metric_name(section, label) for label in labels]
    assert found == [
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "l1tex__throughput.avg.pct_of_peak_sustained_active",
        "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    ]


def test_tables_have_their_schemas_and_number_launches(real_data, tmp_path):
    path = tmp_path / f"{LABEL}.ncu-rep"
    shutil.copy(real_data / "ncu" / "rtx2060_2024.3.ncu-rep", path)
    raw = Raw(path=path, label=LABEL, rank=1, repeat=2)
    made = convert.run(raw, tmp_path).tables
    assert {name: table.schema for name, table in made.items()} == {
        name: schema.TABLES[name] for name in convert.produces
    }
    kernels = made["measured_kernels"].to_pylist()
    assert [row["kernel"] for row in kernels] == list(range(8))
    assert kernels[0] | {"launch": -1} == {
        "rank": 1,
        "repeat": 2,
        "kernel": 0,
        "launch": -1,
        "pid": -1,
        "function": "hd_enc_lvid_packed_cuda",
        "name": "hd_enc_lvid_packed_cuda",
        "device": 0,
        "device_name": "NVIDIA GeForce RTX 2060 with Max-Q Design",
        "capability": "7.5",
        "stream": 7,
        "grid": "[2,5000,1]",
        "block": "[1024,1,1]",
        "ranges": "",
    }
    words = made["kernel_metrics"].filter(
        [bool(text) for text in made["kernel_metrics"]["text"].to_pylist()]
    )
    assert "CachePreferNone" in words["text"].to_pylist()
    assert {row["kind"] for row in made["kernel_advice"].to_pylist()} >= {"optimisation"}


BROKEN = {
    "empty": (lambda _: b"", "the file is empty"),
    "cut off": (lambda data: data[:50_000], "cut off before the end of its first launch"),
    "beheaded": (lambda data: b"NVR\0" + data[40_000:], "damaged, cut off, or newer"),
    "without kernels": (lambda data: data[:10], "no kernel was measured"),
    "something else": (lambda _: b"hello " * 100, "neither a report nor a page"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_report_is_named_with_what_to_do(real_data, tmp_path, what):
    spoil, message = BROKEN[what]
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(spoil((real_data / "ncu" / "rtx2080ti_2022.3.ncu-rep").read_bytes()))
    with pytest.raises(InputError, match=message) as caught:
        report_or_page.read(path)
    assert "hint" in str(caught.value)


@pytest.mark.parametrize("kept", [100_000, 103_000])
def test_of_a_report_that_is_cut_off_the_whole_launches_are_kept(real_data, tmp_path, kept):
    source = real_data / "ncu" / "rtx2080ti_2022.3.ncu-rep"
    path = tmp_path / f"{LABEL}.ncu-rep"
    path.write_bytes(source.read_bytes()[:kept])
    whole = report_or_page.read(source)
    assert report_or_page.read(path) == whole[:1]
    assert (report_or_page.is_cut_off(path), report_or_page.is_cut_off(source)) == (True, False)
    made = convert.run(Raw(path=path, label=LABEL, rank=1, repeat=0), tmp_path)
    assert made.notes[0].startswith("The file is cut off")


@pytest.mark.parametrize(
    ("of_block", "is_cut"),
    [
        (b"\x04\0\0\0\x08\x01\x28\x04abcd", False),
        (b"\x04\0\0\0\x08\x01\x28\x05abcd", True),
        (b"\x07\0\0\0\x08\x01\x12\x01x\x28\x04abcd", False),  # behind a text
        (b"\x09\0\0\0\x08\x01\x28\x04abcd", True),  # within its header
        (b"\x04\0\0\0\x0b\x01\x28\x05abcd", False),  # of a later form: for the reader
        (b"\x04\0\0\0\x08\x01\x2d\x05abcd", False),
        (b"\x02\0\0\0\x08\xff", False),
    ],
)
def test_a_report_ends_with_its_last_block(tmp_path, of_block, is_cut):
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(b"NVR\0\x02\0\0\0\x08\x07" + of_block)
    assert report_blocks.cut_behind(path) == (10 if is_cut else None)


def test_a_reader_that_crashes_takes_nothing_with_it(real_data, tmp_path, monkeypatch):
    # What a native reader does on a damaged file, done by a module of the same name.
    (tmp_path / "ncu_report.py").write_text("import os\n\nos.abort()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    with pytest.raises(InputError, match="crashes on it \\(SIGABRT\\)"):
        report.read(real_data / "ncu" / "rtx2080ti_2022.3.ncu-rep")


def test_a_page_without_launches_says_so(real_data, tmp_path):
    text = (real_data / "ncu" / "rtx2080ti_2022.3.raw.csv").read_text()
    path = tmp_path / "x.csv"
    path.write_text("\n".join(text.splitlines()[:2]) + "\n")
    with pytest.raises(InputError, match="holds no launch"):
        report_or_page.read(path)


@pytest.mark.parametrize("gpu", ["a10g_2023.1", "rtx2080ti_2022.3"])
def test_pages_have_the_titles_of_reports_for_what_limits_a_kernel(real_data, gpu):
    of_report, of_page = (
        [
            [advice.title for advice in launch.advice if advice.rule == "SOLBottleneck"]
            for launch in report_or_page.read(real_data / "ncu" / f"{gpu}.{kind}")
        ]
        for kind in ("ncu-rep", "details.csv")
    )
    assert of_page == of_report


def test_it_is_what_import_knows_as_ncu():
    assert import_kinds()["ncu"][0] == "ncu"


def test_a_damaged_report_is_noted_and_the_rest_is_converted(real_data, tmp_path):
    folder = tmp_path / "capture/ncu/rep0"
    folder.mkdir(parents=True)
    good = (real_data / "ncu" / "rtx2080ti_2022.3.ncu-rep").read_bytes()
    labels = ["rank0_dp0_tp0_pp0", LABEL]
    record = {"status": "ok", "reason": "", "repeat": 0, "ranks": labels}
    (folder / "capture.json").write_text(json.dumps(record))
    (folder / f"{labels[0]}.a.ncu-rep").write_bytes(good)
    (folder / f"{labels[0]}.b.ncu-rep").write_bytes(good)
    (folder / f"{LABEL}.ncu-rep").write_bytes(good[:50_000])
    tables, files = tmp_path / "tables", tmp_path / "files"
    main(["ncu", "--captures", str(folder), "--tables", str(tables), "--files", str(files)])
    notes = json.loads((tables / "convert.json").read_text())["notes"]
    (note,) = [note for note in notes if note["text"].startswith("Not read:")]
    assert note["file"] == f"rep0/{LABEL}.ncu-rep"
    assert "cut off before the end of its first launch" in note["text"]
    # Two reports of one rank: the numbers of launches count on.
    for name in ("measured_kernels", "kernel_metrics"):
        rows = pq.read_table(tables / f"{name}.parquet").to_pandas()
        assert set(zip(rows["rank"], rows["kernel"], strict=True)) == {(0, n) for n in range(4)}


HEADING = '"ID","Process ID","Kernel Name","Stream","Grid Size","gpu__time_duration.sum"'


@pytest.fixture
def page(tmp_path):
    def read_page(*rows, heading=HEADING):
        path = tmp_path / "page.csv"
        path.write_text("\n".join([heading, '"","","","","","us"', *rows]))
        return report_or_page.read(path)

    return read_page


@pytest.mark.parametrize("number", ["9" * 400, "9" * 5000, "1e400", "\N{SUPERSCRIPT TWO}"])
def test_absurd_numbers_on_a_page_are_no_numbers(page, number):
    [launch] = page(f'"7","{number}","gemm","{number}","({number}, 1, 1)","{number}"')
    assert (launch.launch, launch.pid, launch.stream, launch.grid) == (7, -1, -1, [])
    assert [(metric.value, metric.text) for metric in launch.metrics] == [(None, number)]


@pytest.mark.parametrize(
    "heading",
    [HEADING.replace('"ID"', '"ID;"', 1), HEADING.replace("Kernel Name", "Kernel Name of")],
)
def test_a_page_without_its_columns_is_refused(page, heading):
    with pytest.raises(InputError, match="page"):
        page('"7","1","gemm","1","(1, 1, 1)","2"', heading=heading)


def test_a_page_of_one_endless_value_is_refused(page):
    with pytest.raises(InputError, match="a damaged page: field larger than"):
        page('"7","1","' + "x" * 200_000 + '","1","(1, 1, 1)","2"')
