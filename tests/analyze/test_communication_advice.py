"""Advice on exposed communication fits what is communicated."""

import pytest

from profkit.analyze._communication_advice import less_communication, with_title
from profkit.analyze._late_advice import late_advice
from profkit.core.verdict import Cause


def exposed(part="transfer", **evidence):
    return Cause(id=f"exposed_communication.{part}", title=part.title(), ms_per_step=5.0,
                 gain_ms=5.0, share=0.5, evidence=evidence)  # fmt: skip


def advice(**evidence):
    return less_communication(exposed(**evidence))


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ("allreduce", "bucket_cap_mb"),
        ("allgather", "set_modules_to_forward_prefetch"),
        ("reduce_scatter", "overlap_comm"),
        ("alltoall", "another micro-batch"),
        ("combine", "fp8"),
        ("sendrecv", "ScheduleInterleaved1F1B"),
        ("recv", "irecv"),
        ("broadcast", "broadcast_buffers=False"),
        ("barrier", "barriers out of the step"),
    ],
)
def test_it_goes_by_the_operation_that_takes_most(operation, words):
    given = advice(operation=operation, operation_share=0.9)
    assert words in given
    assert ("gradients" in given) == (operation == "allreduce")


def test_single_numbers_are_to_be_sent_together():
    sent = {"operation": "allreduce", "operation_share": 0.9, "fastest_ns": 9, "message_bytes": 4}
    assert advice(**sent).startswith("Single numbers are sent one by one: put losses and metrics")
    assert "fewer and larger" in advice(**sent | {"message_bytes": 4096})


@pytest.mark.parametrize(("calls", "are_numbers"), [(40.0, True), (2.0, False)])
def test_many_calls_that_are_read_as_numbers_send_these_whatever_their_size(calls, are_numbers):
    given = advice(operation="allreduce", operation_share=0.9, calls_per_step=calls)
    assert given.startswith("Single numbers") == are_numbers


def test_it_is_for_any_operation_where_none_takes_most():
    mixed = advice(operation="alltoall", operation_share=0.4)
    assert mixed == advice() == advice(operation="scatter", operation_share=1.0)
    assert "gradients" not in mixed


@pytest.mark.parametrize(
    ("operation", "library", "words", "others"),
    [
        ("allgather", "FSDP", "set_modules_to_forward_prefetch", "ZeRO"),
        ("reduce_scatter", "ZeRO", "overlap_comm", "FSDP"),
        ("allgather", "DDP", "metrics and losses", "shards"),
        ("allgather", "none", "metrics and losses", "shards"),
        ("allreduce", "DDP", "no_sync", "tensor-parallel"),
        ("allreduce", "ZeRO", "overlap_comm", "no_sync"),
        ("allreduce", "none", "async_op=True", "no_sync"),
    ],
)
def test_it_goes_by_what_the_program_uses(operation, library, words, others):
    given = advice(operation=operation, operation_share=0.9, library=library)
    assert words in given
    assert others not in given


@pytest.mark.parametrize(
    ("library", "words"),
    [
        ("FSDP", "fully_shard"),
        ("ZeRO", "bucket_size"),
        ("DDP", "bucket_cap_mb"),
        (None, "torch.cat"),
    ],
)
def test_small_messages_get_larger_by_what_the_program_uses(library, words):
    known = {"library": library} if library else {}
    given = advice(operation="allreduce", operation_share=1.0, message_bytes=100, **known)
    assert words in given


@pytest.mark.parametrize(
    ("more", "is_waiting"), [({}, True), ({"on_cpu": 1}, False), ({"is_of_stages": 1}, False)]
)
def test_what_is_done_behind_the_last_rank_and_in_stages_is_not_called_waiting(more, is_waiting):
    slow = {"at_best_share": 0.2, "fastest_ns": 1000, "message_bytes": 1 << 20}
    given = advice(operation="send", operation_share=1.0, **slow, **more)
    assert ("Most of it is waiting" in given) == is_waiting
    assert ("ScheduleInterleaved1F1B" in given) != is_waiting
    title = with_title(exposed(**slow, **more)).title
    assert title == ("Waiting or transfer" if is_waiting else "Transfer")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("launched but not started", "than rank 1): see with `nvidia-smi` whether another program"),
        ("GPU computing", "than rank 1), as where batches differ in length, or where ranks share"),
    ],
)
def test_two_ranks_that_come_last_in_turn_may_share_their_gpus(more, words):
    because = f"5.5 ms more {more} than rank 1"
    waiting = exposed("waiting", late_rank=0, is_mutual=True, late_because=because)
    assert words in late_advice(waiting)


def test_gradients_that_are_sent_in_16_bits_are_not_to_be():
    for dtype, is_said in (("bfloat16", False), ("float16", False), ("float32", True)):
        given = advice(operation="allreduce", operation_share=1.0, dtype=dtype)
        assert ("bf16_compress_hook" in given) == is_said
        assert "no_sync" in given
    on_cpu = advice(operation="allreduce", operation_share=1.0, dtype="float32", on_cpu=True)
    assert "`fp16_compress_hook`" in on_cpu


@pytest.mark.parametrize(
    ("sent", "fastest_ns", "on_cpu", "is_slow"),
    [
        (17_632_384, 8_656_708, 0, True),
        (17_632_384, 8_656_708, 1, False),
        (17_632_384, 300_000, 0, False),
        (500_000, 8_656_708, 0, False),
    ],
)
def test_a_link_is_slow_over_which_large_messages_take_long(sent, fastest_ns, on_cpu, is_slow):
    given = advice(operation="allreduce", operation_share=1.0, message_bytes=sent, on_cpu=on_cpu,
                   fastest_ns=fastest_ns)  # fmt: skip
    assert given.startswith("16.8 MiB take 8.66 ms at best, 2 GB/s: ") == is_slow
    assert given.endswith("`no_sync()`.")


def test_inference_has_no_backward_to_hide_behind():
    given = advice(operation="allreduce", operation_share=1.0, program="inference")
    assert "tensor-parallel" in given
    assert "backward" not in given
    assert "NVLink" in given
    on_cpu = advice(operation="allreduce", operation_share=1.0, program="inference", on_cpu=1)
    assert "numactl" in on_cpu
    assert "NVLink" not in on_cpu


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ({"at_best_share": 0.2, "fastest_ns": 12_000}, "takes 0.012 ms at best"),
        ({"at_best_share": 0.9, "fastest_ns": 12_000, "message_bytes": 8192}, "Messages of 8 KiB"),
    ],
)
def test_waiting_and_latency_take_no_less_with_fewer_bytes(evidence, words):
    given = advice(operation="alltoall", operation_share=1.0, **evidence)
    assert words in given
    assert "fp8" not in given
    large = {"at_best_share": 0.9, "fastest_ns": 12_000, "message_bytes": 1 << 20}
    assert "fp8" in advice(operation="alltoall", operation_share=1.0, **large)
