import pytest
import torch

from profkit.core.errors import ConfigError
from profkit.core.settings import checked
from profkit.workloads.models.cnn import Model


def test_images_become_scores_of_classes():
    model = Model(width=4)
    inputs, label = model.sample(torch.Generator().manual_seed(0))
    scores = model.build()(inputs["input"][None].repeat(2, 1, 1, 1))
    assert scores.shape == (2, 10)
    assert 0 <= int(label) < 10
    assert model.loss(scores, label[None].repeat(2)).shape == ()


def test_stages_that_leave_nothing_of_the_image_are_refused():
    with pytest.raises(ConfigError, match="6 stages halve an image of 32 to nothing"):
        checked("model", Model, {"stages": 6})
