"""Snapshots of strangers: pickles that would fill memory or last for ever, and absurd values."""

import pickle
import struct

import pytest

from profkit.convert.base import Raw
from profkit.convert.memory_snapshot import convert, plain_data, snapshot, stacks
from profkit.core.errors import InputError

ENTRY = {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 1, "frames": []}
BLOCK = {"size": 4096, "requested_size": 4000, "state": "active_allocated", "frames": []}
SEGMENT = {"device": 0, "address": 4096, "total_size": 4096, "stream": 0, "blocks": [BLOCK]}


def segment(**more):
    return {"segments": [SEGMENT | more], "device_traces": []}


def history(*entries):
    return {"segments": [SEGMENT], "device_traces": [list(entries)]}


def shared(levels=60):
    """Return lists that are small, and endless for whoever follows all of them."""
    found = ["x"] * 2
    for _ in range(levels):
        found = [found] * 2
    return found


def doubled(levels):
    """Return opcodes of a tuple of two tuples of two tuples..., each of which is there once."""
    return b")\x94" + b"".join(b"h%ch%c\x86\x94" % (n, n) for n in range(levels))


@pytest.fixture
def read(tmp_path):
    def load(content):
        path = tmp_path / "rank0.memory.pickle"
        path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, 4))
        return snapshot.read(path)

    return load


@pytest.mark.parametrize(
    "opcodes",
    [
        b"]r\xff\xff\xff\x7f.",
        b"\x8e" + struct.pack("<Q", 1 << 40) + b".",
        b"\x8d" + struct.pack("<Q", 1 << 62) + b".",
        b"\x8b" + struct.pack("<i", (1 << 31) - 1) + b".",
        b"\x95" + struct.pack("<Q", 1 << 40) + b"].",
        b"\x96" + struct.pack("<Q", 1 << 36) + b".",
    ],
    ids=["slot", "bytes", "text", "number", "frame", "array"],
)
def test_a_few_bytes_that_ask_for_gigabytes_are_refused(read, opcodes):
    with pytest.raises(InputError, match="takes more than 1,024 MiB of memory"):
        read(b"\x80\x05" + opcodes)


def test_a_few_bytes_that_take_years_are_refused(read, monkeypatch):
    monkeypatch.setattr(plain_data, "_SECONDS", 1)
    with pytest.raises(InputError, match=r"refused: .* takes more than 1 s"):
        read(b"\x80\x04}(" + doubled(60) + b"K\x01u.")


FRAMES = [{"filename": "x" * 1000, "line": 1, "name": "f"}]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (segment(device=10**18), "1000000000000000000 is no index of a device"),
        (segment(device=-1), "-1 is no index of a device"),
        (segment(total_size=-5), "-5 bytes is no size"),
        (segment(total_size=1 << 80_000), "more than 63 bits"),
        (segment(blocks=[BLOCK | {"size": 2**62}]), "bytes is no size"),
        (segment(blocks=[BLOCK | {"requested_size": "7"}]), "str instead of a whole number"),
        (segment(segment_type=shared()), "list instead of a text"),
        (segment(segment_pool_id=shared()), "list instead of a whole number"),
        (segment(address=1 << 70), "an address or a stream has 64 bits"),
        (segment(stream=1 << 70), "an address or a stream has 64 bits"),
        (segment(stream=True), "bool instead of a whole number"),
        (segment(is_expandable="yes"), "str instead of true or false"),
        (history(ENTRY | {"addr": 1 << 70}), "an address or a stream has 64 bits"),
        (history(ENTRY | {"size": 1.5}), "float instead of a whole number"),
        (history(ENTRY | {"time_us": True}), "bool instead of a whole number"),
        (history(ENTRY | {"stream": None}), "NoneType instead of a whole number"),
        (history(ENTRY | {"size": -5}), "-5 to -5 bytes are no sizes"),
        (history(*[ENTRY | {"size": 2**50}] * 9000), "add up to more than 63 bits"),
        (history(ENTRY | {"time_us": 2**62}), "us is no time"),
        (history(ENTRY | {"action": ("x", "y")}), "tuple instead of a text"),
        (history(ENTRY | {"user_metadata": ("x", "y")}), "tuple instead of a text"),
        (history(ENTRY | {"frames": [FRAMES[0] | {"line": 10**6000}]}), "more than 63 bits"),
        (history(ENTRY | {"frames": [FRAMES[0] | {"name": None}]}), "NoneType instead of a text"),
        (history(ENTRY | {"frames": [FRAMES[0] | {"filename": 5}]}), "int instead of a text"),
        (history(ENTRY | {"frames": FRAMES * 40}), "stacks of more than 10,000 characters"),
        (history(ENTRY | {"frames": FRAMES * 99}), "a stack of 99 frames"),
        ({"segments": [], "device_traces": [[ENTRY]] * 2}, "several devices have one and the same"),
        ({"segments": [], "device_traces": [[]] * 5000 + [[ENTRY]]}, "one and the same"),
        (history(ENTRY) | {"profkit_max_entries": "x"}, "str instead of a whole number"),
        (history(ENTRY) | {"profkit_device": shared()}, "list instead of a text"),
        (
            history(ENTRY) | {"external_annotations": [{"stage": shared(), "name": ""}]},
            "list instead of a text",
        ),
    ],
)
def test_absurd_values_are_named(read, monkeypatch, content, says):
    monkeypatch.setattr(stacks, "_MOST_CHARACTERS", 10_000)
    monkeypatch.setattr(stacks, "_MOST_FRAMES", 50)
    with pytest.raises(InputError, match=f"not a memory snapshot: .*{says}"):
        read(content)


def test_what_contradicts_itself_is_said(read):
    held, idle = BLOCK | {"requested_size": 4097}, BLOCK | {"requested_size": 9999}
    idle["state"] = "inactive"
    late, early = ENTRY | {"time_us": 9}, ENTRY | {"time_us": 5, "addr": 8192}
    found = read(
        {
            "segments": [
                SEGMENT,
                SEGMENT | {"address": 0x9000, "total_size": 5000},
                SEGMENT | {"blocks": [held]},
                SEGMENT | {"blocks": [idle]},
                SEGMENT | {"total_size": 5000, "is_expandable": True},
            ],
            "device_traces": [[late, early]],
        }
    )
    unfilled, smaller, *others = found.notes
    assert unfilled.startswith(
        "2 segments are not as large as their blocks together (the first is at 0x9000)"
    )
    assert smaller == "1 block is smaller than what was asked for: the file is damaged."
    assert "1 entry of cuda:0 is earlier than the one before it." in others
    assert "3 segments overlap the one before them: the file is damaged." in others


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({}, []),
        (
            {"addr": 5120},
            [
                "1 entry of cuda:0 leaves more memory allocated than is reserved.",
                "1 allocation of cuda:0 was never freed, and is in no block at the",
            ],
        ),
        (
            {"size": 4097},
            [
                "1 entry of cuda:0 leaves more memory allocated than is reserved.",
                "1 allocation of cuda:0 is larger than the block that it lies in.",
            ],
        ),
    ],
)
def test_a_history_that_contradicts_the_blocks_at_its_end_is_said(read, entry, said):
    notes = [note for note in read(history(ENTRY | entry)).notes if "history begins" not in note]
    assert [note[: len(start)] for note, start in zip(notes, said, strict=True)] == said


def test_states_that_are_not_known_are_named(read):
    odd = BLOCK | {"state": "quantum"}
    (found,) = read({"segments": [SEGMENT | {"blocks": [odd]}], "device_traces": [[ENTRY]]}).notes
    assert found == (
        "Blocks in states that are not known count neither as used nor as free: 'quantum'."
    )


FREED = ENTRY | {"action": "free_completed", "time_us": 2}
OTHER = {"action": "segment_alloc", "addr": 1 << 30, "time_us": 3}


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (segment(is_expandable=True, total_size=8192), "1 segment is not as large as its"),
        (
            segment(blocks=[BLOCK | {"size": 2048, "address": at} for at in (4096, 7000)]),
            "1 segment has blocks that do not begin where the one before them ends.",
        ),
        (segment(allocated_size=512), "1 segment states other sums than those of its blocks."),
        (segment(active_size=512), "1 segment states other sums than those of its blocks."),
        (segment(stream=-3), "1 segment has a stream that no allocator writes"),
        (segment(segment_type="medium"), "Segments of kinds that are not known: 'medium'."),
        (history(ENTRY | {"stream": -3}, FREED), "1 entry of cuda:0 has a stream that no"),
        (history(ENTRY, FREED | {"size": 7}), "1 free of cuda:0 has another size than"),
        (history(ENTRY | {"addr": 9}, FREED | {"addr": 9}), "1 allocation of cuda:0 lies in no"),
        (
            history(
                ENTRY | OTHER | {"size": 512},
                ENTRY | OTHER | {"action": "segment_free", "size": 9, "time_us": 4},
            ),
            "1 segment of cuda:0 gives back more or less memory than it took.",
        ),
        (
            history(ENTRY)
            | {"external_annotations": [{"stage": "MID", "name": "n", "time_us": 5}]},
            "1 annotation neither starts nor ends a range",
        ),
    ],
)
def test_what_pytorch_cannot_have_written_is_said(read, content, note):
    assert any(said.startswith(note) for said in read(content).notes), read(content).notes


EDGE = {"stage": "START", "name": "n", "device": 0, "time_us": 5}


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (history(ENTRY, ENTRY | {"action": "x"}), "1 entry of cuda:0 has an action that is not"),
        (history(ENTRY, ENTRY | {"action": None}), "1 entry of cuda:0 has an action that is not"),
        (history(ENTRY, ENTRY | {"action": "snapshot", "time_us": -1}), "1 entry of cuda:0 has"),
        (history(ENTRY | {"frames": [{"filename": "a\udce9", "line": 1, "name": "f"}]}), "1 text"),
        (history(ENTRY | {"user_metadata": "a\udce9"}), "1 text holds what is no UTF-8"),
        (history(ENTRY) | {"external_annotations": [EDGE, EDGE]}, "1 annotation stands in the"),
        (history(ENTRY) | {"external_annotations": [EDGE | {"name": "\ud800"}]}, "1 text holds"),
    ],
)
def test_what_is_of_no_kind_twice_or_no_text_is_said(read, content, note):
    assert [said.startswith(note) for said in read(content).notes] == [True]


def test_settings_are_texts_of_bounded_length(read):
    content = history(ENTRY) | {"allocator_settings": {"a": shared(), "b": "\udce9", "c": {"d": 1}}}
    found = read(content).settings
    assert len(found["a"]) < 1000
    assert (found["b"], found["c"]) == ("\ufffd", "{'d': 1}")


MOSAIC = "mosaic_output.pickle"


def test_real_snapshots_contradict_nothing(real_data, tmp_path):
    # The blocks of mosaic_output were cut out and shortened by its authors.
    for path in {*(real_data / "memory").glob("*.pickle")} - {real_data / "memory" / MOSAIC}:
        raw = Raw(path=path, label="rank0", rank=0, repeat=0)
        said = " ".join(convert.run(raw, tmp_path).notes)
        assert "damaged" not in said, path
        assert "earlier" not in said, path
