import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import numpy as np
import pytest
import torch

from roost_engine.cluster.features import COLUMNS
from roost_engine.scoring.graph_columns import CANDIDATE_COLUMNS
from roost_engine.scoring.heuristic import HeuristicScore
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.score import GRAPH_MODEL
from roost_formats.models.signature import GRAPH
from roost_train.environments.slot_views import GRAPH_PLACEMENT_COLUMNS
from roost_train.networks.graph_placement_net import GraphPlacementNet

pytestmark = pytest.mark.torch


def options(count: int = 40) -> torch.Tensor:
    drawn = np.random.default_rng(0).random((2, count, len(GRAPH_PLACEMENT_COLUMNS)))
    return torch.from_numpy(drawn.astype(np.float32))


def test_at_first_it_chooses_as_the_heuristic_does_whatever_surrounds_a_candidate() -> None:
    lines = options()
    with torch.inference_mode():
        found = GraphPlacementNet()(lines, torch.zeros(2, 1)).numpy()
    for own, each in zip(found, lines.numpy(), strict=True):
        points = HeuristicScore().score(each[:, : len(COLUMNS)])
        assert np.argmax(own) == np.argmax(points)
        assert own == pytest.approx(10.0 * points, abs=1e-4)


def test_the_whole_model_scores_as_the_trained_head_on_the_shipped_trunk() -> None:
    torch.manual_seed(1)
    net, lines, width = GraphPlacementNet(), options(), len(CANDIDATE_COLUMNS)
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
        whole, logits = net.graph_net(), net(lines, torch.zeros(2, 1))[0]
        scores = whole.scores(lines[0, :, :width], lines[0, :, width:])
    assert torch.allclose(10.0 * scores, logits, atol=1e-4)
    shipped = read_onnx(GRAPH_MODEL.read_bytes(), GRAPH).weights
    written = whole.to_weights()
    assert set(written) == set(shipped)
    assert {
        name for name, weight in shipped.items() if not np.array_equal(written[name], weight)
    } == {name for name in shipped if name.startswith(("head", "skip"))}
