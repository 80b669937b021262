import pytest
import torch

from profkit.core.errors import ConfigError
from profkit.core.settings import checked
from profkit.workloads.models.vit import Model

SMALL = Model(image=8, patch=4, layers=2, heads=2, width=16, classes=5)


def test_images_become_scores_of_classes():
    inputs, label = SMALL.sample(torch.Generator().manual_seed(0))
    assert inputs["image"].shape == (3, 8, 8)
    assert SMALL.build()(inputs["image"][None].repeat(2, 1, 1, 1)).shape == (2, 5)
    assert 0 <= int(label) < 5


def test_it_has_the_parameters_of_transformers_vit():
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        image_size=8,
        patch_size=4,
        num_hidden_layers=2,
        num_attention_heads=2,
        hidden_size=16,
        intermediate_size=64,
        num_labels=5,
    )
    theirs = ViTForImageClassification(config)
    assert sum(parameter.numel() for parameter in theirs.parameters()) == SMALL.parameter_count()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, "heads=3 does not divide width=128"),
        ({"patch": 5}, "patch=5 does not divide image=32"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        checked("model", Model, settings)
