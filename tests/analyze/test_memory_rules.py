"""Rules 12 and 15 on whole files: a GPU that ran out of memory, and whose code allocates."""

import pytest

from profkit.cli.answer import verdict_on
from profkit.cli.run_folders import RunFolder
from profkit.cli.unkept_run import unkept_run
from tests.generated_snapshots import DEFAULT, EXPANDABLE, Device

_PACKAGES = "/home/me/.venv/lib/python3.11/site-packages"
TORCH = ("_call_impl", f"{_PACKAGES}/torch/nn/modules/module.py", 1750)
OURS = ("run", f"{_PACKAGES}/profkit/workloads/script.py", 40)
FORWARD = ("forward", "/home/me/model.py", 12)
KEEP = ("keep", "/home/me/cache.py", 7)
PROJECT = ("project", "/home/me/model.py", 31)
INSTALLED = ("attend", f"{_PACKAGES}/mylib/blocks.py", 88)
GROWING = (100, 110, 122, 134, 148, 162)
"""Sizes in MiB of which none fits into what an earlier one left."""


def fragmented(settings=DEFAULT, *, larger=1.0):
    """Return a device that reserved 776 MiB, and `larger` times that, for 388 MiB that live."""
    device = Device(settings)
    for mib in GROWING:
        address = device.segment(int(mib * larger), [TORCH, FORWARD, OURS])
        device.allocate(address, mib, [TORCH, FORWARD, OURS])
        device.free(address)
        device.allocate(address, mib // 2, [TORCH, KEEP, FORWARD, OURS])
    device.run_out(200, 40, [TORCH, PROJECT, OURS])
    return device


def full():
    device = Device()
    for mib in GROWING:
        device.allocate(device.segment(mib, [FORWARD]), mib, [TORCH, FORWARD, OURS])
    device.run_out(200, 40, [TORCH, PROJECT, OURS])
    return device


def memory(device, folder):
    """Return what ``profkit show FILE`` says of the memory."""
    path = folder / "a.pickle"
    device.write(path)
    with unkept_run([path]) as (run, *_):
        return verdict_on(RunFolder(run)).memory


@pytest.mark.parametrize(
    ("device", "unused", "fits"),
    [
        (fragmented(), "388 MiB", True),
        (fragmented(EXPANDABLE), "388 MiB", False),
        (fragmented(larger=1.6), "852 MiB", False),
        (full(), "", False),
    ],
    ids=["another setting fits", "it was set", "the replay differs", "nothing is left"],
)
def test_what_ran_out_of_memory_says_what_would_have_fitted(tmp_path, device, unused, fits):
    found = memory(device, tmp_path)
    left = f", {unused} reserved but unused" if unused else ""
    assert found.headline == f"Out of memory: 200 MiB asked, 160 MiB missing{left}."
    assert len(found.headline.split()) <= 15
    assert found.place == "project (/home/me/model.py:31)"
    assert f"Asked by {found.place}." in found.advice
    assert ("expandable_segments:True" in found.advice) == fits
    line = "keep (/home/me/cache.py:7)" if unused else "forward (/home/me/model.py:12)"
    assert f"; of all lines {line} has most, " in found.advice


def test_memory_is_of_the_program_even_if_it_is_installed_and_never_of_profkit(tmp_path):
    device = Device()
    for mib in GROWING:
        device.allocate(device.segment(mib, [INSTALLED]), mib, [TORCH, INSTALLED, OURS])
    assert memory(device, tmp_path).place == f"attend ({INSTALLED[1]}:88)"
