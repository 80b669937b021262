import pytest
import torch

from profkit.core.errors import ConfigError
from profkit.core.settings import checked
from profkit.workloads.models.moe import Model, imbalance

SMALL = Model(vocabulary=32, context=8, layers=2, heads=4, kv_heads=2, width=16, hidden=24)


def mixtral(model):
    """Return transformers' Mixtral of the same sizes."""
    from transformers import MixtralConfig, MixtralForCausalLM

    return MixtralForCausalLM(
        MixtralConfig(
            vocab_size=model.vocabulary,
            hidden_size=model.width,
            intermediate_size=model.hidden,
            num_hidden_layers=model.layers,
            num_attention_heads=model.heads,
            num_key_value_heads=model.kv_heads,
            num_local_experts=model.experts,
            num_experts_per_tok=model.active,
            rope_theta=10_000.0,
            sliding_window=None,
        )
    )


def copied(ours, theirs):
    """Give `theirs` the weights of `ours`."""
    body = theirs.model
    pairs = [
        (body.embed_tokens.weight, ours.tokens.weight),
        (body.norm.weight, ours.norm.weight),
        (theirs.lm_head.weight, ours.head.weight),
    ]
    for layer, block in zip(body.layers, ours.blocks, strict=True):
        attention, experts = layer.self_attn, block.experts
        both = torch.cat((experts.gate, experts.up), dim=-1)
        pairs += [
            (attention.q_proj.weight, block.attention.q.weight),
            (attention.k_proj.weight, block.attention.k.weight),
            (attention.v_proj.weight, block.attention.v.weight),
            (attention.o_proj.weight, block.attention.projection.weight),
            (layer.mlp.gate.weight, block.router.weight),
            (layer.mlp.experts.gate_up_proj, both.transpose(1, 2)),
            (layer.mlp.experts.down_proj, experts.down.transpose(1, 2)),
        ]
    with torch.no_grad():
        for there, here in pairs:
            there.copy_(here)


def test_it_computes_what_mixtral_computes():
    torch.manual_seed(0)
    ours, theirs = SMALL.build(), mixtral(SMALL)
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    torch.nn.init.ones_(ours.norm.weight)
    for block in ours.blocks:
        torch.nn.init.ones_(block.attention_norm.weight)
        torch.nn.init.ones_(block.experts_norm.weight)
    copied(ours, theirs)
    tokens = torch.randint(32, (3, 8))
    logits, _ = ours(tokens)
    torch.testing.assert_close(logits, theirs(tokens).logits, rtol=1e-4, atol=1e-4)


def test_the_loss_of_balance_is_that_of_mixtral():
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    scores = torch.randn(40, 5)
    theirs = load_balancing_loss_func((scores[:20], scores[20:]), num_experts=5, top_k=2)
    assert imbalance(scores, 2).item() == pytest.approx(theirs.item())


def test_the_loss_of_balance_is_least_if_all_experts_are_used_alike():
    even = torch.eye(4).repeat(3, 1) * 20
    uneven = torch.zeros(12, 4)
    uneven[:, 0] = 20
    assert imbalance(even, 1).item() == pytest.approx(1)
    assert imbalance(uneven, 1).item() == pytest.approx(4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"active": 5}, "active=5 is more than there are experts=4"),
        ({"heads": 3}, "heads=3 must divide width=128 evenly in pairs"),
        ({"kv_heads": 3}, "kv_heads=3 does not divide heads=4"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        checked("model", Model, settings)
