"""Which device a trace means, and what is said of each."""

from profkit.hardware import Hardware, found

KNOWN = (
    Hardware(name="big", reported_as=("NVIDIA A100-SXM4-80GB", "NVIDIA  A100 80GB")),
    Hardware(name="small", reported_as=("Tesla T4",)),
)


def test_a_device_is_found_by_any_of_its_names():
    assert found(["nvidia a100-sxm4-80gb"], KNOWN).name == "big"
    assert found(["A100-SXM4-80GB", "NVIDIA A100 80GB"], KNOWN).name == "big"
    assert found(["NVIDIA Tesla T4"], KNOWN).name == "small"


def test_what_no_file_names_is_unknown():
    assert found([], KNOWN) == Hardware()
    assert found(["Tesla T40"], KNOWN) == Hardware()


def test_devices_of_different_kinds_are_unknown():
    assert found(["Tesla T4", "NVIDIA A100 80GB"], KNOWN) == Hardware()
