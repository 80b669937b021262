"""What jobs sum up of batches of ranks becomes the result that one job makes of all."""

import json

import numpy as np
import pandas as pd
import pytest

from profkit.analyze import analysis
from profkit.analyze.__main__ import main
from profkit.analyze.shared import mapped_frames
from profkit.core import result
from profkit.core.errors import InputError, PluginError
from profkit.core.job_record import NOTHING, read_job
from profkit.testing import ResultTree
from tests.analyze.test_operators import op

SPANS = (":1", "1:3", "3:")
NAMES = ("aten::mm", "aten::add", "aten::mm", "aten::relu", "aten::add")


@pytest.fixture
def tables(tmp_path):
    """Return tables of five ranks, one of which has no operator."""
    made = ResultTree(tmp_path)
    ops = [
        op(0, name, (0, 100), 10 * rank, rank=rank, input_shapes=f"[[{rank}]]", inputs="[]")
        for rank, name in enumerate(NAMES)
        if rank != 3
    ]
    needed = {name: [] for name in analysis("operators").tables} | {"cpu_ops": ops}
    paths = [made.table("torch_profiler", name, rows) for name, rows in needed.items()]
    for path in paths:
        _in_row_groups_of_ranks(path)
    return [str(path) for path in paths]


def _in_row_groups_of_ranks(path):
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    with pq.ParquetWriter(path, table.schema) as writer:
        for rank in sorted(set(table["rank"].to_pylist())):
            writer.write_table(table.filter([one == rank for one in table["rank"].to_pylist()]))


def analyze(out, tables, *options):
    main(["operators", "--tables", *tables, "--out", str(out), *map(str, options)])
    return out


def maps(folder, tables):
    return [
        analyze(folder / f"maps/operators/{number}.json", tables, "--ranks", ranks)
        for number, ranks in enumerate(SPANS)
    ]


def test_sums_of_batches_become_the_result_of_all(tmp_path, tables):
    alone = result.read(analyze(tmp_path / "analyze/alone.json", tables))
    made = maps(tmp_path, tables)
    path = analyze(tmp_path / "analyze/operators.json", tables, "--maps", *made)
    joined = result.read(path)
    assert joined.result == alone.result
    assert len(alone.result.tables["by_name"].rows) == 2
    assert {str(path) for path in made} < set(joined.provenance.inputs)


def test_the_sums_are_made_by_the_code_and_the_settings_of_the_map_alone(tmp_path, tables):
    out = tmp_path / "0.json"
    options = ("--settings", json.dumps({"asynchronous": ["x"]}), "--attempt", 3)
    made = read_job(analyze(out, tables, "--ranks", ":2", *options))
    assert (made.status, made.attempt) == ("ok", 3)
    assert made.provenance.settings == {"asynchronous": ["x"]}
    assert "profkit.analyze._operator_sums" in made.provenance.modules
    assert "profkit.analyze.operators" not in made.provenance.modules
    assert set(made.provenance.inputs) == set(tables)


def test_an_analysis_without_a_map_has_no_sums(tmp_path, tables):
    with pytest.raises(InputError, match="kernels has no map of ranks"):
        main(["kernels", "--tables", *tables, "--ranks", ":2", "--out", str(tmp_path / "x.json")])


@pytest.mark.parametrize("break_it", ["flip", "cut", "fail"])
def test_sums_that_are_damaged_or_failed_are_named(tmp_path, tables, break_it):
    made = maps(tmp_path, tables)
    content = made[1].read_bytes()
    made[1].write_bytes(
        {
            "flip": content.replace(b"aten::add", b"aten::adc"),
            "cut": content[:-9],
            "fail": content.replace(
                b'"status":"ok","reason":""', b'"status":"failed","reason":"x"'
            ),
        }[break_it]
    )
    with pytest.raises(InputError, match=r"maps/operators/1\.json: "):
        analyze(tmp_path / "analyze/operators.json", tables, "--maps", *made)


def test_frames_come_back_as_they_were(tmp_path):
    frame = pd.DataFrame(
        {
            "whole": np.array([1 << 62, -1]),
            "narrow": np.array([1, 2], dtype=np.int32),
            "real": [0.1, np.nan],
            "is_so": [True, False],
            "text": ["\N{GREEK SMALL LETTER MU}s", ""],
            "older": pd.Series(["a", "b"], dtype=object),
        }
    )
    parts = [{"rows": frame, "none": frame[:0]}, {"rows": frame[1:]}]
    mapped_frames.write(tmp_path / "3.json", parts, NOTHING, 1)
    read = mapped_frames.read([tmp_path / "3.json"])
    assert list(read) == ["3.0", "3.1"]
    for before, after in zip(parts, read.values(), strict=True):
        assert before.keys() == after.keys()
        for name, rows in before.items():
            pd.testing.assert_frame_equal(after[name], rows.reset_index(drop=True))


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (pd.Categorical(["a"]), "is of category"),
        ([float("inf")], "is infinite somewhere"),
        (pd.to_datetime(["2020"]), "is of datetime64"),
    ],
)
def test_a_column_that_would_not_come_back_is_refused(tmp_path, values, why):
    with pytest.raises(PluginError, match=rf"column rows\.x of a map {why}"):
        mapped_frames.write(
            tmp_path / "0.json", [{"rows": pd.DataFrame({"x": values})}], NOTHING, 1
        )
