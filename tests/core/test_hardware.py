"""Which device a trace means, and what is said of each."""

import pytest
import yaml

from profkit.cli import hardware as measuring
from profkit.cli import main
from profkit.convert.torch_profiler.trace import read
from profkit.core import resources
from profkit.core.errors import ConfigError
from profkit.core.hardware import TYPES, Hardware, read_hardware, reported_hardware
from profkit.core.settings import checked

FILES = {path.stem: path for path in sorted((resources.CONF / "hardware").glob("*.yaml"))}
PARTS = dict(zip(FILES, read_hardware(resources.CONF / "hardware"), strict=True))
# A user may have measured the CPU.
NOT_SHIPPED = ("auto", "unknown", "cpu_measured")
DEVICES = [name for name in FILES if name not in NOT_SHIPPED]
every = pytest.mark.parametrize("name", DEVICES)

KNOWN = (
    Hardware(name="big", reported_as=("NVIDIA A100-SXM4-80GB", "NVIDIA  A100 80GB")),
    Hardware(name="small", reported_as=("Tesla T4",)),
)


def test_a_device_is_found_by_any_of_its_names():
    assert reported_hardware(["nvidia a100-sxm4-80gb"], KNOWN).name == "big"
    assert reported_hardware(["A100-SXM4-80GB", "NVIDIA A100 80GB"], KNOWN).name == "big"
    assert reported_hardware(["NVIDIA Tesla T4"], KNOWN).name == "small"


def test_what_no_file_names_is_unknown():
    assert reported_hardware([], KNOWN) == Hardware()
    assert reported_hardware(["Tesla T40"], KNOWN) == Hardware()


def test_devices_of_different_kinds_are_unknown():
    assert reported_hardware(["Tesla T4", "NVIDIA A100 80GB"], KNOWN) == Hardware()


def test_every_part_in_use_is_there():
    wanted = "a100_pcie_40gb a100_pcie_80gb a100_sxm_40gb a100_sxm_80gb a10g b200 gh200 h100_nvl"
    wanted += " h100_pcie h100_sxm h200 l4 l40s mi210 mi250 mi300x rtx_4090 rtx_5090 t4"
    wanted += " v100_pcie_16gb v100_pcie_32gb v100_sxm2_16gb v100_sxm2_32gb"
    assert set(wanted.split()) <= set(DEVICES)


@every
def test_a_part_is_whole_and_says_where_its_numbers_are_from(name):
    part = PARTS[name]
    assert part.name.startswith(("NVIDIA ", "AMD "))
    assert part.reported_as
    assert part.source
    assert {"fp32", "fp16"} <= set(part.peak_flops) <= set(TYPES)


@every
def test_peaks_are_plausible(name):
    peaks = PARTS[name].peak_flops
    order = ("fp64", "fp32", "tf32", "fp16", "fp8")
    known = [peaks[name] for name in order if name in peaks]
    assert known == sorted(known)
    assert all(1e12 < peak < 1e16 for peak in peaks.values())
    assert peaks.get("bf16", peaks["fp16"]) == peaks["fp16"]
    # A processor has 64 or 128 lanes of fp32, and clocks lie between 1.2 and 2.7 GHz.
    clocks = [peaks["fp32"] / (PARTS[name].processors * lanes * 2) for lanes in (64, 128)]
    assert any(1.2e9 < clock < 2.7e9 for clock in clocks)


@every
def test_memory_and_links_are_in_bytes(name):
    part = PARTS[name]
    assert 16 << 30 <= part.memory_bytes <= 192 << 30
    assert 0.3e12 <= part.memory_bandwidth_bytes_per_s <= 8e12
    assert 16e9 <= part.link_bytes_per_s <= 900e9


def test_no_two_parts_have_a_name_in_common():
    names = [reported for name in DEVICES for reported in PARTS[name].reported_as]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["auto", "unknown"])
def test_what_is_not_known_is_zero(name):
    part = PARTS[name]
    assert (part.memory_bandwidth_bytes_per_s, part.peak_flops, part.source) == (0.0, {}, "")


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        ("hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", "v100_sxm2_32gb"),
        ("hta/critical_path/cuda_event_sync/event_sync_trace.json.gz", "a100_sxm_40gb"),
        ("hta/trace_diff/test/test.json.gz", "v100_sxm2_16gb"),
        ("llama_2rank_rtx4090/rank0.json.gz", "rtx_4090"),
        ("tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz", "h100_sxm"),
        ("tracelens/mi210_gpu_only_trace.json.gz", "mi210"),
        ("tracelens/sglang_Qwen3-8B_decode.json.gz", "mi300x"),
    ],
)
def test_real_devices_have_the_memory_and_processors_of_their_file(real_data, trace, expected):
    rows = read(real_data / "kineto" / trace).tables["devices"].to_pandas()
    part = reported_hardware(rows["name"].unique(), PARTS.values())
    assert part == PARTS[expected]
    assert set(rows["processors"]) == {part.processors}
    assert rows["memory_bytes"].between(part.memory_bytes * 0.95, part.memory_bytes).all()


def test_a_peak_of_an_unknown_type_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'fp16'"):
        checked("hardware", Hardware, {"peak_flops": {"fp_16": 1.0}})


def test_measured_peaks_are_a_file_that_can_be_chosen(tmp_path, monkeypatch, capsys):
    sizes = {"_MATRIX": 64, "_ARRAY_BYTES": 1 << 20, "_SECONDS": 0.01}
    for name, value in sizes.items():
        monkeypatch.setattr(measuring, name, value)
    out = tmp_path / "mine.yaml"
    assert main(["hardware", "measure", "--out", str(out)]) == 0
    assert "hardware=mine" in capsys.readouterr().out
    part = checked("hardware", Hardware, yaml.safe_load(out.read_text()))
    assert set(part.peak_flops) == set(measuring.TYPES)
    assert all(peak > 0 for peak in part.peak_flops.values())
    assert part.memory_bandwidth_bytes_per_s > 0
    assert "products of 64" in part.source


def test_a_place_that_cannot_be_written_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measuring, "measured", lambda **_: Hardware())
    (tmp_path / "file").touch()
    assert main(["hardware", "measure", "--out", str(tmp_path / "file" / "x.yaml")]) == 1
    assert "name another --out" in capsys.readouterr().err
