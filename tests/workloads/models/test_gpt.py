import subprocess
import sys

import pytest
import torch

from profkit.core.errors import ConfigError
from profkit.core.settings import checked
from profkit.workloads.models.gpt import Model

SMALL = Model(vocabulary=64, context=8, layers=2, heads=2, width=16)


def test_the_sizes_of_gpt_2_small_make_124_million_parameters():
    with torch.device("meta"):
        model = Model(vocabulary=50257, context=1024, layers=12, heads=12, width=768).build()
    assert sum(parameter.numel() for parameter in model.parameters()) == 124_439_808


def test_a_token_does_not_see_those_after_it():
    torch.manual_seed(0)
    model = SMALL.build().eval()
    tokens = torch.randint(64, (1, 8))
    changed = tokens.clone()
    changed[0, -1] = (changed[0, -1] + 1) % 64
    torch.testing.assert_close(model(tokens)[:, :-1], model(changed)[:, :-1])


def test_the_embeddings_are_tied():
    model = SMALL.build()
    assert model.head.weight is model.tokens.weight


def test_a_sample_is_its_own_target_shifted_by_one():
    inputs, target = SMALL.sample(torch.Generator().manual_seed(0))
    assert inputs["tokens"][1:].tolist() == target[:-1].tolist()
    assert inputs["tokens"].shape == (8,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, "heads=3 does not divide width=128"),
        ({"layers": 0}, "model.layers: Input should be greater than 0"),
        ({"widht": 4}, "did you mean 'width'?"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(settings, message):
    with pytest.raises(ConfigError) as error:
        checked("model", Model, settings)
    assert message in str(error.value)


def test_plans_import_every_workload_and_model_without_torch():
    code = (
        "import sys; from profkit.workloads import workloads; from profkit.capture import tools;"
        "from profkit.workloads.models import families; workloads(); families(); tools();"
        "print('torch' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert answer.stdout == b"False\n"
