"""warmstart: a network that learns a teacher's order, and a file that says the same."""

from pathlib import Path

import numpy as np
import pytest

from roost_engine.queue.model_order import CLUSTER_COLUMNS, JOB_COLUMNS
from roost_train.errors import TooFewChoices
from roost_train.warmstart.decisions import Preferences

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

from roost_formats.models.model_order import OnnxOrder, load_onnx_order  # noqa: E402
from roost_train.warmstart.warmstart import (  # noqa: E402
    WarmstartParameters,
    imitate,
    write_order,
)

PARAMETERS = WarmstartParameters(epochs=15, batch=64)
SHORT = JOB_COLUMNS.index("expected_log")


def shortest_first(count: int = 1_500) -> Preferences:
    """A teacher that starts the job of the shorter expected run time."""
    drawn = np.random.default_rng(1).random((2, count, len(JOB_COLUMNS))).astype(np.float32)
    is_shorter = drawn[0, :, SHORT] < drawn[1, :, SHORT]
    started = np.where(is_shorter[:, None], drawn[0], drawn[1])
    return Preferences(started, np.where(is_shorter[:, None], drawn[1], drawn[0]))


def least_product_first(count: int = 1_500) -> Preferences:
    """A teacher that weighs two columns."""
    drawn = np.random.default_rng(1).random((2, count, len(JOB_COLUMNS))).astype(np.float32)
    product = drawn[..., SHORT] * drawn[..., JOB_COLUMNS.index("gpu_log")]
    is_less = (product[0] < product[1])[:, None]
    return Preferences(np.where(is_less, drawn[0], drawn[1]), np.where(is_less, drawn[1], drawn[0]))


def test_it_learns_the_teachers_order_and_keeps_a_tenth_to_judge_by() -> None:
    net, report = imitate(least_product_first(), "made", PARAMETERS)
    assert (report.pair_count, report.column) == (1_350, None)
    assert report.agreement_frac > 0.9
    again, _ = imitate(least_product_first(), "made", PARAMETERS)
    jobs = torch.rand(4, len(JOB_COLUMNS))
    with torch.no_grad():
        assert torch.equal(net(jobs), again(jobs))


def test_an_order_by_one_column_is_imitated_exactly() -> None:
    net, report = imitate(shortest_first(), "made", PARAMETERS)
    assert (report.column, report.agreement_frac) == ("expected_log", 1.0)
    jobs = torch.rand(50, len(JOB_COLUMNS))
    with torch.no_grad():
        assert torch.equal(net(jobs)[:, 0].argsort(), (-jobs[:, SHORT]).argsort())


def test_too_few_choices_are_refused() -> None:
    with pytest.raises(TooFewChoices, match="made: 150 choices between two waiting jobs; want 200"):
        imitate(shortest_first(150), "made", PARAMETERS)


def test_the_file_ranks_as_the_network_does(tmp_path: Path) -> None:
    pairs = shortest_first()
    net, report = imitate(pairs, "made", PARAMETERS)
    path = write_order(net, pairs, PARAMETERS, report, tmp_path, {"teacher": "made"})
    model = load_onnx_order(path, lambda: 0.0)
    assert isinstance(model, OnnxOrder)
    assert tuple(model.job_columns) == JOB_COLUMNS
    jobs = np.random.default_rng(2).random((128, len(JOB_COLUMNS))).astype(np.float32)
    with torch.no_grad():
        wanted = net(torch.from_numpy(jobs)).numpy()[:, 0]
    cluster = np.ones(len(CLUSTER_COLUMNS), np.float32)
    assert model.rank(jobs, cluster) == pytest.approx(wanted, abs=1e-4)
