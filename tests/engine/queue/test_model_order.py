"""model_order: what a model is told of the queue, and what no model may change."""

from dataclasses import replace

import numpy as np
import pytest

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.errors import PolicyError
from roost_engine.plugins.plugins import Models, Plugins
from roost_engine.policies.protocols import QueueMark, QueueView
from roost_engine.prediction.predictors import Predictors
from roost_engine.queue.model_order import (
    CLUSTER_COLUMNS,
    JOB_COLUMNS,
    Expectations,
    Floats,
    Known,
    ModelOrder,
    cluster_features,
    job_features,
)
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import EngineHarness, job, node, shape, waiting

HOUR_S = 3600.0
LONG_S = 1e9  # longer than the window of any queue here


class Largest:
    """Ranks the job with most GPUs first; can be told to fail."""

    name = "onnx:largest"
    job_columns = ("waited_log", "gpu_log")
    cluster_columns = ("free_frac",)

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.asked: list[tuple[Floats, Floats]] = []

    def rank(self, jobs: Floats, cluster: Floats) -> Floats:
        self.asked.append((jobs, cluster))
        if self.fault:
            raise PolicyError(self.fault)
        return jobs[:, 1]


def known(*_: object, **__: object) -> Known:
    return Known(expected_s=HOUR_S, job_count=3.0, due_s=25.0 * HOUR_S)


def cluster_of(gpu_count: int) -> Cluster:
    cluster = Cluster()
    cluster.apply_node(node("a", gpu_count))
    return cluster


def test_features_by_hand() -> None:
    first = waiting(job("1", shape(4, 2), priority=5, time_limit_s=HOUR_S), queued_s=0.0)
    second = waiting(job("2", priority=9), queued_s=HOUR_S)
    view = QueueView(jobs=[first, second], cluster=cluster_of(8), at_s=HOUR_S)
    hour = np.log1p(HOUR_S) / 10.0
    assert dict(zip(JOB_COLUMNS, job_features(view, known)[0].tolist(), strict=True)) == (
        pytest.approx(
            {
                "gpu_log": 3.0,
                "node_log": 1.0,
                "waited_log": hour,
                "limit_log": hour,
                "has_limit": 1.0,
                "expected_log": hour,
                "service_log": np.log1p(8 * HOUR_S) / 10.0,
                "attained_log": 0.0,
                "known_frac": 0.75,
                "turn_frac": 1.0,
                "waited_days": 1.0 / 24.0,
                "service_days": 8.0 / 24.0,
                "due_days": 1.0,
            }
        )
    )
    assert job_features(view, known)[1].tolist() == pytest.approx(
        [0.0, 0.0, 0.0, 0.0, 0.0, hour, hour, 0.0, 0.75, 0.0, 0.0, 1.0 / 24.0, 1.0]
    )
    wanted = [1.0, np.log1p(2) / 10.0, np.log1p(9) / 10.0]
    assert cluster_features(view).tolist() == pytest.approx(wanted)
    assert len(CLUSTER_COLUMNS) == 3


def test_what_is_expected_of_a_job_is_that_of_its_arrival_and_its_due_time_follows_trust() -> None:
    predictors = Predictors()
    expectations = Expectations(predictors)
    early, late = (waiting(job(name, gpus=2, submit_s=0.0)) for name in ("early", "late"))
    expectations.note(early, 0.0)
    before = expectations.of(early, 0.0)
    for number in range(50):
        predictors.history.add(job(f"ended{number}", gpus=2), 10 * before.expected_s, 0.0)
    assert expectations.of(early, 60.0) == before
    assert expectations.of(late, 60.0).expected_s > 2 * before.expected_s
    assert before.due_s > 0.0
    predictors.skill.trust_frac = 0.0
    assert expectations.of(early, 60.0).due_s == 0.0  # as the job came


def test_an_empty_cluster_has_no_free_gpus() -> None:
    view = QueueView(jobs=[waiting(job("1"))], cluster=Cluster(), at_s=0.0)
    assert cluster_features(view)[0] == 0.0


def test_a_model_reads_its_own_columns_and_ranks_the_highest_first() -> None:
    model = Largest()
    jobs = [waiting(job(str(gpus), gpus=gpus)) for gpus in (1, 4, 2)]
    view = QueueView(jobs=jobs, cluster=cluster_of(8), at_s=0.0)
    assert ModelOrder(model, Predictors()).rank(view) == ["4", "2", "1"]
    ((told, of_cluster),) = model.asked
    assert told.tolist() == [[0.0, 0.0], [0.0, 2.0], [0.0, 1.0]]
    assert of_cluster.tolist() == [1.0]


def test_what_an_operator_put_first_and_what_is_due_goes_before_the_models_first() -> None:
    jobs = [
        waiting(job("large", gpus=8), queued_s=LONG_S),
        waiting(job("old"), queued_s=-2.0),
        waiting(job("older"), queued_s=-3.0),
        waiting(replace(job("first"), precedence=1), queued_s=LONG_S),
        waiting(replace(job("last", gpus=8), precedence=-1), queued_s=-4.0),
    ]
    view = QueueView(jobs=jobs, cluster=Cluster(), at_s=LONG_S)
    order = ModelOrder(Largest(), Predictors())
    assert order.rank(view) == ["first", "older", "old", "large", "last"]


def test_equal_ranks_keep_slurms_order() -> None:
    jobs = [waiting(job("10")), waiting(job("9")), waiting(job("8", priority=-1))]
    view = QueueView(jobs=jobs, cluster=Cluster(), at_s=0.0)
    assert ModelOrder(Largest(), Predictors()).rank(view) == ["9", "10", "8"]
    empty = QueueView(jobs=[], cluster=Cluster(), at_s=0.0)
    assert ModelOrder(Largest(), Predictors()).rank(empty) == ()


def test_it_is_asked_again_after_a_minute() -> None:
    order = ModelOrder(Largest(), Predictors())
    start = QueueMark(1, 0, 0, 0.0)
    assert not order.is_outdated(start, QueueMark(1, 0, 0, 59.0))
    assert order.is_outdated(start, QueueMark(1, 0, 0, 60.0))


def test_in_an_engine_it_orders_the_queue_and_its_faults_leave_slurms_order() -> None:
    for model, first in ((Largest(), "2"), (Largest("broken"), "1")):
        policies = Plugins(order_model=model.name).policies(
            HeuristicScore(), models=Models(order=model)
        )
        harness = EngineHarness([node("a")], policies=policies)
        harness.run(job("0", gpus=8))
        harness.queue(job("1", gpus=1), job("2", gpus=8))
        harness.now_s += 1.0
        harness.end("0")
        assert harness.placement(first)
        assert harness.engine.fault_counts["order"] == (0 if not model.fault else 3)
