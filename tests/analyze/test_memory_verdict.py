import pytest

from profkit import testing
from profkit.analyze import fragmentation, memory_over_steps, memory_peak, memory_verdict
from profkit.core.hardware import Hardware
from profkit.core.verdict import Confidence

MIB = 1 << 20
PLACE = {"rank": 0, "repeat": 0, "device": "cuda:0"}
FORWARD = "_call_impl (module.py:1);forward (model.py:5)"
STEP = "step (/torch/optim/adam.py:9)"


def block(size_mib, start, end=-1, stack=FORWARD, line="forward (model.py:5)"):
    times = {"start_event": start, "end_event": end, "start_ns": start, "stream": 0}
    texts = {"stack": stack, "line": line}
    return {**PLACE, **times, **texts, "size_bytes": size_mib * MIB}


def snapshot(blocks, reserved_mib, *, short=(), settings=(), freed=()):
    """Return what the two analyses of a snapshot say of these blocks."""
    levels = {"reserved_bytes": reserved_mib * MIB, "allocated_bytes": 0}
    segment = {"size_bytes": reserved_mib * MIB, "allocated_bytes": 0}
    places = [PLACE | {"device": name} for name in sorted({one["device"] for one in blocks})]
    tables = {
        "allocations": [*blocks],
        "memory_events": [place | levels for place in places for _ in range(41)]
        + [PLACE | levels | {"action": "segment_free", "size_bytes": -one * MIB} for one in freed],
        "segments": [place | segment for place in places],
        "blocks": [],
        "out_of_memory": [*short],
        "allocator_settings": [
            {"rank": 0, "repeat": 0, "name": name, "value": value} for name, value in settings
        ],
    }
    return {
        "memory_peak": testing.run(memory_peak.analyze, allocations=[*blocks]),
        "fragmentation": testing.run(fragmentation.analyze, **tables),
    }


def verdict(results, memory_mib=0):
    hardware = Hardware(name="GPU", memory_bytes=memory_mib * MIB)
    config = memory_verdict.Config()
    given = {"memory_over_steps": None} | results
    return memory_verdict.analyze.run(**given, hardware=hardware, config=config).memory


def test_the_peak_is_told_by_contents_and_with_what_to_do():
    found = verdict(snapshot([block(60, 0), block(20, 1, stack=STEP, line="x")], 80), 90)
    assert found.headline == "80 MiB at the peak, 89 % of the GPU's memory: mostly activations."
    assert found.filled_by == {"activations": 60 * MIB, "optimizer states": 20 * MIB}
    assert "torch.utils.checkpoint" in found.advice
    assert (found.place, found.is_limit) == ("forward (model.py:5)", False)


BACKWARD = "torch::autograd::Engine::evaluate_function"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], "For inference, `torch.inference_mode()`"),
        ([block(1, 2, 3, stack="?", line="?")] * 2, "For inference, `torch.inference_mode()`"),
        ([block(1, 2, 3, stack="?", line="?")] * 3, "Use activation checkpointing"),
        ([block(1, 2, 3, stack=BACKWARD, line="b")], "Use activation checkpointing"),
        ([block(600, 2, line="softmax (model.py:7)")], "Use `torch.nn.functional.scaled_dot"),
        ([block(400, 2, line="softmax (model.py:7)")], "For inference, `torch.inference_mode()`"),
    ],
    ids=["forward", "few unknown", "unknown", "backward", "much attention", "some attention"],
)
def test_activations_of_a_recording_without_backward_may_be_those_of_inference(more, says):
    blocks = [*[block(60, 1)] * 20, *more]
    advice = verdict(snapshot(blocks, 2000)).advice
    assert advice.startswith(says)
    # Where backward may have run it is only one of several things to do.
    is_forward = "activation checkpointing" not in says
    assert ("no backward was recorded" in advice) == is_forward


def test_without_a_history_what_was_live_at_the_end_is_no_peak():
    found = verdict(snapshot([block(60, -1)], 80))
    assert found.headline.startswith("60 MiB at the end, the peak not recorded: 100 % ")
    assert found.confidence is Confidence.LOW
    assert verdict(snapshot([block(60, -1), block(1, 0, 1)], 80)).headline.startswith(
        "61 MiB at the peak, little for a GPU: "
    )


@pytest.mark.parametrize(("times", "is_said"), [(100, True), (99, False)])
def test_memory_that_goes_back_to_the_driver_again_and_again_is_to_be_kept(times, is_said):
    advice = verdict(snapshot([block(600, 0)], 700, freed=[30] * times)).advice
    said = "100 times memory went back to the driver, 2.93 GiB in all: call no `torch.cuda"
    assert advice.startswith(said) == is_said
    few = verdict(snapshot([block(600, 0)], 700, freed=[20] * times)).advice
    assert "back to the driver" not in few


def test_far_from_the_limit_nothing_is_advised():
    assert not verdict(snapshot([block(60, 0)], 60), 8000).advice


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("softmax (model.py:7)", "scaled_dot_product_attention"),
        ("log_softmax (loss.py:7)", "cross-entropy"),
    ],
)
def test_a_line_of_attention_or_of_the_loss_has_its_own_remedy(line, advice):
    updated = block(1, 2, 3, stack=STEP)
    found = verdict(snapshot([block(600, 0), block(200, 1, line=line), updated], 801))
    assert advice in found.advice
    # The activations, of which these are a quarter, are what fills the peak.
    said = "Such matrices hold 25 % of the peak. The other activations shrink with activation "
    assert said in found.advice
    assert found.place == line


@pytest.mark.parametrize(("size_mib", "is_little"), [(500, True), (513, False)])
def test_where_the_gpu_is_not_known_little_memory_is_no_problem(size_mib, is_little):
    found = verdict(snapshot([block(size_mib, 0)], size_mib))
    assert bool(found.advice) != is_little
    assert bool(found.place) != is_little
    assert ("at the peak, little for a GPU: 100 %" in found.headline) == is_little


CAST = f"{FORWARD};at::autocast::cached_cast(c10::ScalarType, at::Tensor const&)"


def test_copies_of_weights_are_what_to_leave_out_where_they_hold_more_than_attention():
    weight = block(1200, -1) | {"stack": "", "line": ""}
    softmax = block(300, 1, line="softmax (model.py:7)")
    blocks = [weight, block(600, 0, stack=CAST), softmax, block(1, 2, 3, stack=STEP)]
    found = verdict(snapshot(blocks, 2101))
    assert found.advice.startswith("Keep the weights in bf16, `model.to(torch.bfloat16)`")
    assert found.advice.endswith("Such copies hold 29 % of the peak.")
    assert found.filled_by["weights cast by autocast"] == 600 * MIB


def test_copies_that_the_optimizer_makes_and_frees_are_to_be_left_out():
    before = block(1600, -1) | {"stack": "", "line": ""}
    update = [block(150, number, 8, stack=STEP, line="step (adam.py:78)") for number in (3, 4)]
    found = verdict(snapshot([before, *update, block(1, 9)], 2000))
    assert found.advice.startswith("Create the optimizer with `fused=True`, or `foreach=False`")
    assert found.advice.endswith("Such copies hold 16 % of the peak.")
    line = "step (/home/me/optimizer.py:78)"
    own = [one | {"line": line} for one in update]
    of_own = verdict(snapshot([before, *own, block(1, 9)], 2000))
    assert of_own.place == line
    assert of_own.advice.startswith("Compute the update in place")


def test_copies_of_weights_are_held_without_gradients_as_well():
    weight = block(1200, -1) | {"stack": "", "line": ""}
    copied = [weight, block(600, 0, stack=CAST)]
    copies = verdict(snapshot([*copied, block(300, 1)], 2100)).advice
    assert copies.startswith("For inference keep the weights in bf16, `model.to(torch.bfloat16)`")
    others = verdict(snapshot([*copied, block(700, 1)], 2500)).advice
    assert others.startswith("For inference, `torch.inference_mode()` keeps none")
    assert "Another 24 % are copies of weights that autocast holds" in others


@pytest.mark.parametrize(("reserved_mib", "has_more"), [(1000, True), (650, False)])
def test_what_is_reserved_is_told_where_the_peak_is_not_known(reserved_mib, has_more):
    found = verdict(snapshot([block(600, -1)], reserved_mib))
    said = "1,000 MiB are reserved, which an earlier peak needed, such as that of loading the model"
    assert found.advice.startswith(said) == has_more
    # Where the peak is known, what is unused beside it is fragmentation.
    assert "are reserved" not in verdict(snapshot([block(600, 0)], reserved_mib)).advice


ATTENDS = f"{FORWARD};attend (model.py:3)"


@pytest.mark.parametrize(
    ("more", "percent"),
    [
        ([], 10),
        ([block(100, 2, line="attend (model.py:3)", stack=ATTENDS)], 20),
        ([block(50, 2, line="attend (model.py:3)", stack=ATTENDS)], 15),
        ([block(1, 2, line="attend (model.py:3)", stack=ATTENDS)], 10),
        ([block(100, 2, line="", stack=BACKWARD)] * 3, 40),
        ([block(60, 2, line="", stack=BACKWARD)] * 3, 10),
        ([block(100, 2, line="", stack=BACKWARD), block(100, 1, 2, line="mlp (model.py:9)")], 10),
    ],
    ids=["softmax", "its caller", "in 16 bits", "a row", "backward", "other sizes", "ambiguous"],
)
def test_scores_of_attention_are_counted_where_no_line_or_another_one_holds_them(more, percent):
    softmax = block(100, 1, line="softmax (model.py:7)", stack=f"{ATTENDS};softmax (model.py:7)")
    live = sum(one["size_bytes"] for one in [softmax, *more] if one["end_event"] < 0) // MIB
    weights = block(1000 - live, -1) | {"stack": "", "line": ""}
    results = snapshot([weights, softmax, *more], 1000)
    (peak,) = results["memory_peak"].tables["peaks"].records()
    assert peak["scores_bytes"] == percent * 10 * MIB


def test_weights_are_to_be_in_bf16_only_if_they_are_not():
    weights = block(600, -1, stack="to (torch/nn/modules/module.py:9)")
    found = verdict(snapshot([weights], 600))
    assert found.advice.startswith("Keep the weights in bf16, if they are in FP32, for inference")


@pytest.mark.parametrize(
    ("recorded_mib", "says", "place"),
    [
        (450, "Of the peak 45 % are activations. Use activation ch", "forward (model.py:5)"),
        (200, "What was there before is m", ""),
    ],
    ids=["much", "little"],
)
def test_what_was_recorded_has_advice_beside_more_from_before_the_history(
    recorded_mib, says, place
):
    before = block(1000 - recorded_mib, -1) | {"stack": "", "line": ""}
    step = block(1, 2, stack=STEP, line="x")
    found = verdict(snapshot([before, block(recorded_mib, 1), step], 1001))
    assert "blocks from before the history" in found.headline
    assert (found.advice[: len(says)], found.place) == (says, place)


def test_more_allocated_than_reserved_is_inconclusive():
    found = verdict(snapshot([block(60, 0)], 10))
    assert found.confidence is Confidence.LOW
    assert "start_up=true" in found.advice


@pytest.fixture
def kept():
    """Return blocks of which each of eight steps keeps one, and what is said of them."""
    blocks = [block(10, 4 * step + 2, line="log (t.py:9)") for step in range(8)]
    steps = [
        {"rank": 0, "repeat": 0, "step": step, "start_ns": 4 * step, "end_ns": 4 * step + 3}
        for step in range(8)
    ]
    return blocks, testing.run(memory_over_steps.analyze, allocations=blocks, steps=steps)


def test_memory_that_grows_comes_first_with_the_line_that_keeps_it(kept):
    blocks, growth = kept
    found = verdict(snapshot(blocks, 80) | {"memory_over_steps": growth}, 8000)
    assert found.headline == "Memory grows 10 MiB with each step; 80 MiB so far."
    assert (found.place, found.is_limit) == ("log (t.py:9)", False)
    assert "`.detach()`" in found.advice


HOLES = [block(30, 0, 4), block(30, 1), block(30, 2, 5), block(30, 3)]
SHORT = {
    **PLACE,
    "event": 6,
    "size_bytes": 70 * MIB,
    "stack": "loss (model.py:9)",
    "line": "a.py:9",
}


def test_memory_that_grew_until_it_ran_out_is_not_helped_by_a_setting(kept):
    blocks, growth = kept
    short = SHORT | {"event": 35, "size_bytes": 10 * MIB, "free_bytes": 2 * MIB}
    found = verdict(snapshot(blocks, 80, short=[short]) | {"memory_over_steps": growth})
    asked = "Out of memory: 10 MiB asked, 8 MiB missing"
    assert found.headline == f"{asked}, 80 MiB reserved but unused."
    assert (found.is_limit, found.is_growing, found.place) == (True, True, "log (t.py:9)")
    assert found.advice.startswith("Memory grew 10 MiB with each step, by log (t.py:9). Keep no")


def test_running_out_of_memory_says_what_was_asked_and_what_was_free():
    found = verdict(snapshot(HOLES, 120, short=[SHORT | {"free_bytes": 2 * MIB}]))
    assert (
        found.headline
        == "Out of memory: 70 MiB asked, 68 MiB missing, 120 MiB reserved but unused."
    )
    assert (found.is_limit, found.place, found.limit_bytes) == (True, "a.py:9", 122 * MIB)
    assert "expandable" not in found.advice
    assert "Make this one tensor smaller" not in found.advice


def test_where_no_line_asked_the_place_is_that_of_what_fills_the_memory():
    asked = SHORT | {"line": "", "stack": "", "free_bytes": 2 * MIB}
    assert verdict(snapshot([block(100, 0)], 120, short=[asked])).place == "forward (model.py:5)"


@pytest.mark.parametrize(("held", "says"), [([10, 20], "20 MiB: divide"), ([10, 50], ""), ([], "")])
def test_gpus_of_one_process_that_hold_far_less_are_said(held, says):
    own = {"rank": 0, "repeat": 0, "device": "cuda:0", "allocated_bytes": 80 * MIB}
    gpus = [own, own | {"rank": 1, "device": "cuda:9", "allocated_bytes": 1}]
    gpus += [
        own | {"device": f"cuda:{number}", "allocated_bytes": mib * MIB}
        for number, mib in enumerate(held, start=1)
    ]
    advice = memory_verdict._of_others(own, gpus)
    assert advice.startswith("No other GPU of this process holds more than") == bool(says)
    assert says in advice


def test_of_blocks_of_unknown_origin_the_line_alone_is_told():
    blocks = [
        block(30, 0, stack="load (m.py:9)", line="load (m.py:9)"),
        block(10, 1, stack="g (b.py:2)", line="g (b.py:2)"),
    ]
    found = verdict(snapshot(blocks, 120, short=[SHORT]))
    assert "of unknown origin" not in found.advice
    assert found.advice.endswith("Of the peak load (m.py:9) has most, 75 %.")


def test_one_request_for_more_than_the_peak_is_what_to_mend():
    asked = SHORT | {"size_bytes": 300 * MIB, "free_bytes": 290 * MIB}
    found = verdict(snapshot(HOLES, 120, short=[asked]))
    assert found.advice.startswith(
        "Make this one tensor smaller in a.py:9: it is 2.5 times what the program held"
    )
    assert "checkpoint" not in found.advice


# Of each two blocks of 9 MiB in a segment of 20 MiB one is freed: a segment that grows has no rest
# of 2 MiB in each.
def test_a_setting_with_which_it_would_have_fitted_is_advised():
    halves = [block(9, number, 20 + number if number % 2 else -1) for number in range(20)]
    asked = SHORT | {"event": 40, "size_bytes": 100 * MIB}
    found = [
        verdict(snapshot(halves, 200, short=[asked | {"free_bytes": free * MIB}])).advice
        for free in (90, 70)
    ]
    assert "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`" in found[0]
    assert "PYTORCH_CUDA_ALLOC_CONF" not in found[1]


@pytest.mark.parametrize(
    ("size_mib", "says", "confidence"),
    [
        (100, "has room for this. Asked", Confidence.HIGH),
        (195, "and for 190 MiB after it. If that is too little: Make this one", Confidence.MEDIUM),
    ],
)
def test_a_setting_that_leaves_less_than_was_asked_may_not_be_all(size_mib, says, confidence):
    halves = [block(9, number, 20 + number if number % 2 else -1) for number in range(20)]
    sizes = {"size_bytes": size_mib * MIB, "free_bytes": (size_mib - 10) * MIB}
    found = verdict(snapshot(halves, 200, short=[SHORT | {"event": 40} | sizes]))
    assert says in found.advice
    assert found.confidence is confidence


def test_of_several_gpus_the_one_that_ran_out_is_named():
    others = [hole | {"device": "cuda:1"} for hole in HOLES]
    found = verdict(snapshot([*HOLES, *others], 120, short=[SHORT | {"free_bytes": 2 * MIB}]))
    assert found.headline.startswith("Out of memory on cuda:0: 70 MiB asked, 68 MiB missing")


def test_settings_are_not_compared_where_the_replay_differs_from_the_recording():
    results = snapshot(HOLES, 200, short=[SHORT | {"free_bytes": 0}])
    reasons = [abstention.reason for abstention in results["fragmentation"].abstentions]
    assert reasons == [
        "a replay of the settings of the run reserves 120 MiB, where 200 MiB were reserved"
    ]
    assert "PYTORCH_CUDA_ALLOC_CONF" not in verdict(results).advice


def test_the_recorded_settings_are_what_is_replayed():
    settings = [("expandable_segments", "True"), ("PYTORCH_CUDA_ALLOC_CONF", "expandable")]
    results = snapshot(HOLES, 120, settings=settings)
    policies = [row[3] for row in results["fragmentation"].tables["replay"].rows]
    assert policies == ["recorded", "expandable", "max_split_size_mb:128", "max_split_size_mb:512"]
