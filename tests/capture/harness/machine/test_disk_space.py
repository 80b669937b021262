import pytest

from profkit.capture.harness.machine import disk_space


def test_room_is_kept_while_a_capture_runs(tmp_path):
    with disk_space.reserved(tmp_path):
        (path,) = tmp_path.iterdir()
        assert path.stat().st_size >= 1 << 20
        assert path.stat().st_blocks * 512 >= 1 << 20
    assert list(tmp_path.iterdir()) == []


def test_room_is_given_back_by_a_capture_that_is_told_to_stop(tmp_path):
    with pytest.raises(SystemExit), disk_space.reserved(tmp_path):
        raise SystemExit(143)
    assert list(tmp_path.iterdir()) == []


def test_what_was_being_written_is_dropped_and_steps_are_kept(tmp_path):
    label = "rank0_dp0_tp0_pp0"
    kept = [f"{label}.steps.part", f"{label}.error.txt", "capture.log", "rank1_dp1_tp0_pp0.x"]
    for name in [*kept, f"{label}.1.pt.trace.json.gz"]:
        (tmp_path / name).touch()
    folder = tmp_path / f"{label}.tables"
    folder.mkdir()
    (folder / "half").touch()
    dropped = disk_space.drop_unfinished(tmp_path, [label])
    assert dropped == [f"{label}.1.pt.trace.json.gz", f"{label}.tables"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_a_folder_that_was_removed_is_made_again_and_named(tmp_path):
    assert disk_space.problem(tmp_path) is None
    gone = tmp_path / "results"
    said = f"the workload removed {gone}, where its capture lies"
    assert disk_space.problem(gone / "runs" / "rep0") == (said, True)
    assert disk_space.problem(gone / "runs" / "rep0") is None


def test_a_file_in_the_place_of_the_folder_of_a_capture_is_kept_beside_it(tmp_path):
    gone = tmp_path / "rep0"
    gone.write_text("of the program")
    disk_space.release(gone)
    assert disk_space.problem(gone) == (
        f"the workload removed {gone}, where its capture lies",
        True,
    )
    assert gone.is_dir()
    assert (tmp_path / "rep0.replaced").read_text() == "of the program"
