"""How much of a batch of tokens is padding, without an operator being called."""

from types import SimpleNamespace

import pytest
import torch

from profkit.capture._padded_inputs import PaddedInputs, _can_be_copied

PAD = 0
LENGTHS = (9, 4, 12, 7)
PADDING = sum(12 - length for length in LENGTHS)


def texts(length=12, pad=PAD, *, left=False):
    rows = []
    for number, own in enumerate(LENGTHS):
        row = [5 + (number + place) % 7 for place in range(own)]
        filled = [pad] * (length - own)
        rows.append([*filled, *row] if left else [*row, *filled])
    return torch.tensor(rows)


def found(*given):
    padded = PaddedInputs()
    padded(given)
    return padded.found


@pytest.mark.parametrize(
    "batch",
    [
        texts(),
        texts(left=True),
        texts().int(),
        texts(13)[:, :-1],
        texts().t().contiguous(),
        texts().t(),
        torch.cat((texts(), texts()), dim=1)[:, :12],
    ],
    ids=["right", "left", "int32", "a part of rows", "in columns", "turned", "of wider rows"],
)
def test_padding_is_counted_wherever_it_is(batch):
    assert found(batch) == [(4, 12, 12, PADDING)]


def test_a_fixed_length_is_longer_than_the_longest_text():
    assert found(texts(20)) == [(4, 20, 12, PADDING + 4 * 8)]


def test_a_text_may_end_with_what_fills_it_up():
    batch = texts(13)
    for row, own in enumerate(LENGTHS):
        batch[row, own] = 3
        batch[row, own + 1 :] = 3
    assert found(batch) == [(4, 13, 12, sum(13 - own for own in LENGTHS))]


@pytest.mark.parametrize(
    "given",
    [
        (texts() != PAD).long(),
        torch.where(texts() == PAD, -100, texts()),
        torch.eye(12, dtype=torch.long),
        torch.ones(4, 12, dtype=torch.long),
        torch.zeros(4, 12),
        texts()[0],
        texts()[:1],
        texts()[:, :4],
        torch.randint(1, 9, (100_000, 4)),
        torch.arange(4)[:, None].expand(4, 8),
        torch.empty(0, 12, dtype=torch.long),
        torch.empty(12, 0, dtype=torch.long),
        [[[[[texts()]]]]],
        torch.empty(4, 12, dtype=torch.long, device="meta"),
        texts().to_sparse(),
        torch.nested.nested_tensor([*texts()]),
        "text",
    ],
    ids=[
        *("a mask", "labels", "one-hot", "one value", "features", "one row of no batch"),
        *("one row", "short rows", "many short rows", "columns of one value", "no row"),
        *("no column", "deep inside", "no memory", "sparse", "nested", "no tensor"),
    ],
)
def test_what_is_no_batch_of_tokens_is_left_out(given):
    assert found(given) == []


def test_a_value_that_is_everywhere_is_no_padding():
    board = torch.tensor([[0, 2, 0, 1, 0, 0, 2, 0, 0, 0]] * 4)
    assert [padding for *_, padding in found(board)] == [0]


def test_a_batch_may_be_one_argument():
    assert len(found({"input_ids": texts(), "labels": texts() - 100})) == 1
    assert len(found((texts(), [texts()]))) == 2


def test_of_many_rows_the_first_are_counted():
    batch = torch.full((1_000, 1_000), PAD)
    batch[:, :400] = torch.arange(400) + 1
    assert found(batch) == [(1_000, 1_000, 400, 600_000)]


@pytest.mark.parametrize("is_captured", [True, False])
@pytest.mark.parametrize("is_cuda", [True, False])
def test_tokens_of_a_gpu_are_copied_where_no_recording_and_no_graph_would_have_it(
    monkeypatch, is_cuda, is_captured
):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: is_captured)
    tokens = SimpleNamespace(is_cuda=is_cuda)
    assert _can_be_copied(tokens) == (not (is_cuda and is_captured))
    with torch.profiler.profile():
        assert not _can_be_copied(tokens)


@pytest.mark.parametrize(
    "labels",
    [
        torch.where(texts() == PAD, -100, texts()),
        torch.where(texts() == PAD, -1, texts()).view(-1),
        torch.where(texts() == PAD, -1, texts()).int().t(),
    ],
    ids=["in rows", "in one row", "turned"],
)
def test_labels_that_do_not_count_are_counted(labels):
    inputs = PaddedInputs()
    inputs([torch.zeros(4, 9), labels])
    assert (inputs.labels, inputs.found) == ([(48, PADDING)], [])


def test_of_many_labels_the_first_are_counted():
    inputs = PaddedInputs()
    inputs([torch.tensor([3, -100, 5, 7] * 5_000)])
    assert inputs.labels == [(20_000, 5_000)]


@pytest.mark.parametrize("values", [[3, 4, 5, 6], [-100, 1, 1, 1], [-1, -2, 3, 4]])
def test_what_has_not_one_negative_value_among_others_is_no_labels(values):
    inputs = PaddedInputs()
    inputs([torch.tensor(values * 4)])
    assert inputs.labels == []


def test_inside_vmap_nothing_is_read():
    seen = []
    torch.func.vmap(lambda batch: seen.extend(found(batch)) or batch)(texts()[None])
    assert seen == []


@pytest.mark.parametrize("shape", [(2, 9_000), (9_000, 2), (3, 5_000), (8, 8), (2, 8), (8, 2)])
@pytest.mark.parametrize("is_turned", [False, True])
def test_batches_of_all_shapes_can_be_looked_at(shape, is_turned):
    batch = torch.randint(1, 99, shape)
    # Of columns that are too long to be read to their ends nothing is known.
    for rows, length, longest, padding in found(batch.t() if is_turned else batch):
        assert rows * length == batch.numel()
        assert 0 < longest <= length
        assert 0 <= padding < batch.numel() / 2


def test_only_the_first_calls_are_looked_at():
    padded = PaddedInputs()
    for _ in range(50):
        padded([texts()])
    assert len(padded.found) == 8
