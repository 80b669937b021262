"""What a recorder hands over: the columns that it knows, and those that it does not."""

import numpy as np
import pytest

from profkit.convert.linking.gathered import KERNEL, Gathered
from profkit.convert.linking.linker import Linker
from profkit.convert.linking.origin import Origin
from profkit.tables import schema

SPAN = {"start": np.array([5]), "end": np.array([7])}
KINDS = {"cpu_ops": {"kind": np.array([0])}, "kernels": {"kind": np.array([KERNEL])}}
GATHERED = ("cpu_ops", "runtime_calls", "kernels", "memory_events", "synchronisations")


def linked(gathered):
    return Linker(gathered=gathered, origin=Origin(rank=3, repeat=1, base_ns=100)).tables()


@pytest.mark.parametrize("table", GATHERED)
def test_rows_with_nothing_but_times_are_unknown_in_all_else(table):
    gathered = Gathered()
    times = {"start": SPAN["start"]} if table == "memory_events" else SPAN
    gathered.put(table, times | KINDS.get(table, {}))
    (row,) = linked(gathered)[table].to_pylist()
    assert (row["rank"], row["repeat"], row.get("start_ns", row.get("time_ns"))) == (3, 1, 105)
    plain = {
        "cpu_ops": ("pid", "tid", "name", "sequence", "external", "input_shapes", "inputs"),
        "runtime_calls": ("tid", "name", "correlation", "op", "step"),
        "kernels": ("device", "stream", "name", "size_bytes", "grid", "registers", "graph"),
        "memory_events": ("tid", "device", "address", "size_bytes", "reserved_bytes"),
        "synchronisations": ("device", "name", "correlation", "awaited_stream"),
    }[table]
    assert {row[column] for column in plain} <= {-1, ""}


def test_numbers_with_a_fraction_are_unknown_as_nan_before_and_after_known_ones():
    gathered = Gathered()
    for own in ({}, {"occupancy_percent": np.array([12.5])}, {}):
        gathered.put("kernels", SPAN | KINDS["kernels"] | own)
    found = linked(gathered)["kernels"]["occupancy_percent"].to_numpy()
    np.testing.assert_array_equal(found, [np.nan, 12.5, np.nan])


def test_a_column_of_the_table_passes_through_without_being_named_by_linking():
    gathered = Gathered()
    known = {"registers": np.array([32]), "grid": gathered.texts.codes(["[1,2,3]"])}
    gathered.put("kernels", SPAN | KINDS["kernels"] | known)
    (row,) = linked(gathered)["kernels"].to_pylist()
    assert (row["registers"], row["grid"], row["block"]) == (32, "[1,2,3]", "")


@pytest.mark.parametrize("column", ["flavour", "rank", "start_ns"])
def test_a_column_that_is_not_declared_is_an_error(column):
    with pytest.raises(KeyError, match=f"'kernels' have no column .*{column}"):
        Gathered().put("kernels", SPAN | {column: np.array([1])})


def test_texts_of_a_later_part_are_those_of_the_first():
    first, later = Gathered(), Gathered()
    for gathered, texts in ((first, ["[1]"]), (later, ["[9]", "[1]"])):
        numbers = gathered.texts.codes(texts)
        for number in numbers:
            name = gathered.names.codes(["named " + texts[-1]])
            own = {"input_shapes": np.array([number]), "name": name}
            gathered.put("cpu_ops", SPAN | KINDS["cpu_ops"] | own)
    first.append(later)
    found = linked(first)["cpu_ops"]
    assert found["input_shapes"].to_pylist() == ["[1]", "[9]", "[1]"]
    assert found["input_types"].to_pylist() == ["", "", ""]
    assert set(found["name"].to_pylist()) == {"named [1]"}
    assert found.schema.equals(schema.TABLES["cpu_ops"])
