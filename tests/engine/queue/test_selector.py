"""The order that a job selector makes, in an engine."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from roost_engine.domain.errors import PolicyError
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.protocols import QueueMark, RefreshedOrder
from roost_engine.prediction.predictors import Predictors
from roost_engine.queue.selector import SelectorConfig, SelectorOrder
from roost_engine.queue.selector_columns import JOB_COLUMNS
from roost_engine.testing.builders import EngineHarness, job, node, placed

GPUS = JOB_COLUMNS.index("ln_gpus")


class FakeModel:
    """Answers by a function of the jobs' columns; remembers how many jobs it was shown."""

    name = "onnx:fake"

    def __init__(self, answer: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> None:
        self._answer, self.shown = answer, list[int]()

    def ranks(self, jobs: NDArray[np.float32], cluster: NDArray[np.float32]) -> NDArray[np.float32]:
        self.shown.append(len(jobs))
        return self._answer(jobs)


def widest_first(jobs: NDArray[np.float32]) -> NDArray[np.float32]:
    return jobs[:, GPUS]


def crowded(model: FakeModel, config: SelectorConfig | None = None) -> EngineHarness:
    """One job holds the node; three wait, in ascending order of GPUs."""
    order = SelectorOrder(model, Predictors(), config)
    harness = EngineHarness([node("n1")], policies=Policies(order=order))
    harness.run(job("0", gpus=8))
    harness.queue(job("1", gpus=5), job("2", gpus=6), job("3", gpus=7))
    return harness


def test_the_job_of_the_highest_rank_is_served_first() -> None:
    harness = crowded(FakeModel(widest_first))
    assert placed(harness.end("0")).keys() == {"3"}
    assert harness.engine.policy_names["order"] == "onnx:fake"
    harness.engine.check_invariants()


def test_jobs_of_the_same_rank_keep_slurms_order() -> None:
    harness = crowded(FakeModel(lambda jobs: np.zeros(len(jobs), np.float32)))
    assert placed(harness.end("0")).keys() == {"1"}


def test_a_job_that_waited_for_longer_than_the_bound_goes_first() -> None:
    harness = crowded(FakeModel(widest_first), SelectorConfig(bound_s=50.0, bound_backlogs=0.0))
    harness.advance(100.0)
    harness.now_s = 100.0
    assert placed(harness.end("0")).keys() == {"1"}


def test_of_a_long_queue_the_rest_comes_behind() -> None:
    model = FakeModel(widest_first)
    harness = crowded(model, SelectorConfig(ranked_count=2))
    assert placed(harness.end("0")).keys() == {"2"}
    assert max(model.shown) == 2


@pytest.mark.parametrize(
    "answer",
    [
        lambda jobs: np.full(len(jobs), np.nan, np.float32),
        lambda jobs: np.zeros(len(jobs) + 1, np.float32),
    ],
)
def test_an_answer_that_is_no_rank_is_a_fault_and_slurms_priority_decides(
    answer: Callable[[NDArray[np.float32]], NDArray[np.float32]],
) -> None:
    harness = crowded(FakeModel(answer))
    assert placed(harness.end("0")).keys() == {"1"}
    assert harness.engine.fault_counts["order"] > 0
    order = SelectorOrder(FakeModel(answer), Predictors())
    with pytest.raises(PolicyError, match="no finite rank"):
        order.rank(harness.engine.queue_view(0.0))


def test_it_is_asked_again_when_capacity_has_come_or_time_has_passed() -> None:
    order = SelectorOrder(FakeModel(widest_first), Predictors())
    assert isinstance(order, RefreshedOrder)
    ranked = QueueMark(3, 0, 5, 100.0)
    assert not order.is_outdated(ranked, QueueMark(3, 1, 5, 159.0))
    assert order.is_outdated(ranked, QueueMark(3, 1, 5, 160.0))
    assert order.is_outdated(ranked, QueueMark(3, 1, 6, 101.0))
