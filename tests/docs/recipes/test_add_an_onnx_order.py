"""docs/recipes/add-an-order-that-is-an-onnx-model.md followed: a real model orders the queue."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from roost_engine.domain.actions import Action, PolicyFailed
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.heuristics import submission_key
from roost_engine.policies.protocols import QueueMark, QueueView, RefreshedOrder
from roost_engine.testing.builders import EngineHarness, job, node, placed
from roost_formats.models.checked_model import Arrays, CheckedModel, Session
from roost_formats.models.loader import load_model
from roost_formats.models.signature import ORDER
from roost_formats.testing.onnx_models import (
    ModelParts,
    install_kind,
    operation,
    tensor,
    value_info,
)
from roost_formats.testing.sessions import FakeClock, NanSession, SlowSession

REFRESH_S = 60.0
JOB_COLUMNS = ("waited_min", "gpu_count", "priority")
CLUSTER_COLUMNS = ("queued_count", "free_gpu_count")


# -- step 1: the model, and its features -------------------------------------------------------


def parts() -> ModelParts:
    """The rank of a job is its waited minutes less its GPUs; the cluster's features count 0."""
    return ModelParts(
        nodes=[
            operation("MatMul", ["jobs", "of_job"], ["own"]),
            operation("MatMul", ["cluster", "of_cluster"], ["shared"]),
            operation("Add", ["own", "shared"], ["rank"]),
        ],
        weights=[
            tensor("of_job", np.array([[1], [-1], [0]], np.float32)),
            tensor("of_cluster", np.zeros((2, 1), np.float32)),
        ],
        inputs=[value_info("jobs", ["n", 3]), value_info("cluster", [2])],
        outputs=[value_info("rank", ["n", 1])],
    )


def features(jobs: Sequence[JobRecord], at_s: float) -> NDArray[np.float32]:
    """float32 [job, feature], columns JOB_COLUMNS."""
    rows = [
        ((at_s - record.queued_s) / 60.0, record.spec.gpu_count, record.spec.priority)
        for record in jobs
    ]
    return np.array(rows, dtype=np.float32).reshape(len(rows), len(JOB_COLUMNS))


# -- step 2: loading ---------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> CheckedModel:
    """The model, after every check of the loader; it runs in ONNX Runtime."""
    path = install_kind(
        tmp_path,
        parts().encode(),
        ORDER,
        columns={"jobs": JOB_COLUMNS, "cluster": CLUSTER_COLUMNS},
        canary_inputs={
            "jobs": np.array([[5, 1, 9], [2, 8, 9]], np.float32),
            "cluster": np.array([2, 0], np.float32),
        },
        canary_outputs={"rank": np.array([4, -6], np.float32)},
    )
    return load_model(path, "order", FakeClock())


class Loaded:
    """A loaded model as a session, for another CheckedModel to watch."""

    def __init__(self, model: CheckedModel) -> None:
        self._model = model

    def run(self, inputs: Arrays) -> Arrays:
        return self._model.ask(inputs)


def watched(model: CheckedModel, session: Session, clock: FakeClock) -> CheckedModel:
    """The same model, with a session that a test has spoiled."""
    return CheckedModel(
        session, model.signature, sha256="0" * 64, columns=model.columns, clock=clock
    )


# -- steps 3 and 4: the adapter ----------------------------------------------------------------


class OnnxOrder:
    """An order that a model of kind `order` makes; asked again after a minute."""

    def __init__(self, model: CheckedModel) -> None:
        self.name, self._model = model.name, model
        self.call_count = 0

    def rank(self, view: QueueView) -> Sequence[JobId]:
        self.call_count += 1
        cluster = np.array([len(view.jobs), view.cluster.free_count()], dtype=np.float32)
        ranks = self._model.ask({"jobs": features(view.jobs, view.at_s), "cluster": cluster})
        by_rank = zip(ranks["rank"].tolist(), view.jobs, strict=True)
        ordered = sorted(by_rank, key=lambda pair: (-pair[0], submission_key(pair[1].spec)))
        return [record.job_id for _, record in ordered]

    def is_outdated(self, ranked: QueueMark, now: QueueMark) -> bool:
        return now.at_s - ranked.at_s >= REFRESH_S


# -- step 5: in the engine ---------------------------------------------------------------------

WIDE = job("1", gpus=6, priority=100)  # Slurm would serve it first
SMALL = job("2", gpus=4)  # the model does: 1 minute less 4 GPUs against 2 less 6


def served_after_two_minutes(order: OnnxOrder) -> tuple[EngineHarness, tuple[Action, ...]]:
    """Two jobs wait for a busy node; what the engine does when the node is free."""
    harness = EngineHarness([node("n1")], policies=Policies(order=order))
    harness.run(job("0", gpus=8))
    harness.queue(WIDE)
    harness.advance(60.0)
    harness.queue(SMALL)
    harness.advance(120.0)
    actions = harness.end("0")
    harness.engine.check_invariants()
    return harness, actions


def failures(actions: Sequence[Action]) -> list[PolicyFailed]:
    return [action for action in actions if isinstance(action, PolicyFailed)]


def test_the_model_orders_the_queue(model: CheckedModel) -> None:
    order = OnnxOrder(model)
    harness, actions = served_after_two_minutes(order)

    assert isinstance(order, RefreshedOrder)
    assert placed(actions).keys() == {"2"}
    assert harness.engine.policy_names["order"] == model.name
    assert harness.engine.fault_counts["order"] == 0
    assert failures(harness.actions) == []


def test_the_order_is_asked_again_for_an_arrival_and_after_a_minute(model: CheckedModel) -> None:
    order = OnnxOrder(model)
    harness = EngineHarness([node("n1")], policies=Policies(order=order))
    harness.run(job("0", gpus=8))
    asked = order.call_count
    harness.queue(job("1", gpus=7), job("2", gpus=8))
    assert order.call_count == asked + 2

    harness.advance(30.0)
    assert placed(harness.end("0")).keys() == {"1"}
    harness.start()
    assert order.call_count == asked + 2
    harness.advance(90.0)
    assert placed(harness.end("1")).keys() == {"2"}
    assert order.call_count == asked + 3


def test_jobs_of_the_same_rank_keep_slurms_order(model: CheckedModel) -> None:
    order = OnnxOrder(model)
    harness = EngineHarness([node("n1", 4)], policies=Policies(order=order))
    harness.run(job("0", gpus=4))
    harness.queue(*(job(str(number), gpus=4) for number in (10, 9, 11)))
    assert placed(harness.end("0")).keys() == {"9"}
    assert harness.engine.fault_counts["order"] == 0


def test_without_an_answer_slurms_priority_orders_the_queue(model: CheckedModel) -> None:
    spoiled = watched(model, NanSession(Loaded(model)), FakeClock())
    harness, actions = served_after_two_minutes(OnnxOrder(spoiled))

    assert placed(actions).keys() == {"1"}
    (failed,) = failures(actions)
    assert (failed.slot, failed.policy) == ("order", "onnx:000000000000")
    assert failed.reason == "onnx:000000000000 answered NaN or infinity"
    assert harness.engine.fault_counts["order"] == len(failures(harness.actions)) > 1


def test_a_model_that_is_too_slow_three_times_is_out_of_service_for_a_minute(
    model: CheckedModel,
) -> None:
    clock = FakeClock()
    slow_s = 2 * ORDER.budget.answer_s
    slow = watched(model, SlowSession(Loaded(model), clock, slow_s, slow_s, slow_s), clock)
    harness, actions = served_after_two_minutes(OnnxOrder(slow))

    told = [failed.reason for failed in failures(harness.actions)]
    assert "more than 50 ms 3 times in a row; out of service for 60 s" in told[0]
    assert placed(actions).keys() == {"1"}

    clock.now_s += ORDER.budget.out_of_service_s
    harness.queue(job("3", gpus=1), job("4", gpus=1))
    assert failures(harness.actions)[-1].reason == told[-1]
    assert harness.engine.fault_counts["order"] == len(told)


def test_a_ranking_that_leaves_a_job_out_is_not_used(model: CheckedModel) -> None:
    class Forgetful(OnnxOrder):
        def rank(self, view: QueueView) -> Sequence[JobId]:
            return super().rank(view)[:1]

    _, actions = served_after_two_minutes(Forgetful(model))

    assert placed(actions).keys() == {"1"}
    assert "ranked 1 jobs, not each of the 2 queued once" in failures(actions)[0].reason
