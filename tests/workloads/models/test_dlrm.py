import pytest
import torch
from torch.utils.data import default_collate

from profkit.workloads.models.dlrm import Model

SMALL = Model(dense=3, rows=(20, 5, 2), lookups=4, width=6, bottom=(8,), top=(7,))


def test_features_meet_in_pairs():
    torch.manual_seed(0)
    network = SMALL.build()
    inputs, clicked = default_collate(
        [SMALL.sample(torch.Generator().manual_seed(seed)) for seed in range(3)]
    )
    assert inputs["indices"].shape == (3, 3, 4)
    assert clicked.shape == (3,)
    expected = []
    for dense, indices in zip(inputs["dense"], inputs["indices"], strict=True):
        tables = zip(network.tables, indices, strict=True)
        found = [table.weight[rows].sum(0) for table, rows in tables]
        features = [network.bottom(dense), *found]
        products = [features[j] @ features[i] for j in range(4) for i in range(j)]
        expected.append(network.top(torch.cat((features[0], torch.stack(products)))))
    torch.testing.assert_close(network(**inputs), torch.cat(expected))


@pytest.mark.parametrize(("skew", "share"), [(1.0, 0.01), (3.0, 0.215)])
def test_popular_rows_are_looked_up_more_often(skew, share):
    model = Model(rows=(10_000,), lookups=20_000, skew=skew)
    inputs, _ = model.sample(torch.Generator().manual_seed(0))
    assert (inputs["indices"] < 100).float().mean().item() == pytest.approx(share, abs=0.01)
    assert 0 <= inputs["indices"].min() <= inputs["indices"].max() < 10_000
