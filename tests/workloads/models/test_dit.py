import pytest
import torch
from torch.utils.data import default_collate

from profkit.core.errors import ConfigError
from profkit.core.settings import checked
from profkit.workloads.models._rotary import angles, rotated
from profkit.workloads.models.dit import Model

SMALL = Model(grid=3, channels=4, text=5, text_width=6, vector_width=7, heads=2, width=16)


@pytest.fixture
def inputs():
    generator = torch.Generator().manual_seed(0)
    return default_collate([SMALL.sample(generator) for _ in range(2)])[0]


@pytest.fixture
def network():
    torch.manual_seed(0)
    return SMALL.build()


def test_the_shapes_are_those_of_latents_text_and_conditions(inputs, network):
    assert {name: tuple(tensor.shape) for name, tensor in inputs.items()} == {
        "image": (2, 9, 4),
        "text": (2, 5, 6),
        "vector": (2, 7),
        "timestep": (2,),
        "guidance": (2,),
    }
    assert network(**inputs).shape == (2, 9, 4)


@pytest.mark.parametrize("name", ["image", "text", "vector", "timestep", "guidance"])
def test_every_input_has_an_influence(name, inputs, network):
    changed = network(**{**inputs, name: inputs[name] + 0.5})
    assert not torch.allclose(changed, network(**inputs), atol=1e-5)


def test_the_order_of_prompt_tokens_has_none_but_that_of_image_tokens_has(inputs, network):
    velocity = network(**inputs)
    torch.testing.assert_close(
        network(**{**inputs, "text": inputs["text"].flip(1)}), velocity, atol=1e-5, rtol=1e-4
    )
    flipped = network(**{**inputs, "image": inputs["image"].flip(1)}).flip(1)
    assert not torch.allclose(flipped, velocity, atol=1e-4)


def test_without_guidance_it_is_no_input():
    plain = Model(grid=3, channels=4, heads=2, width=16, guided=False)
    inputs, _ = plain.sample(torch.Generator().manual_seed(0))
    assert "guidance" not in inputs
    assert plain.build().guidance_in is None


def test_the_target_leads_from_the_latents_to_the_noise():
    inputs, velocity = SMALL.sample(torch.Generator().manual_seed(1))
    clean = inputs["image"] - inputs["timestep"] * velocity
    generator = torch.Generator().manual_seed(1)
    torch.testing.assert_close(clean, torch.randn(9, 4, generator=generator))


def test_turned_queries_and_keys_meet_by_their_distance_alone():
    q, k = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)

    def product(first, second):
        there = angles(torch.tensor([first, second]), 8)
        return (rotated(q, there[:1]) * rotated(k, there[1:])).sum().item()

    assert product(5, 2) == pytest.approx(product(13, 10), rel=1e-4)
    assert product(5, 2) != pytest.approx(product(5, 3), rel=1e-4)


def test_heads_that_cannot_turn_by_row_and_column_are_refused():
    with pytest.raises(ConfigError, match="width=128 is no multiple of 4 times heads=3"):
        checked("model", Model, {"heads": 3})
