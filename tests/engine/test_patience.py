"""Nodes reserved for a job past its patience, and the jobs that backfill on them."""

import pytest
from tests.engine.conftest import HarnessFactory
from tests.engine.engine_questions import impatient, withdraw

from roost_engine.domain.actions import Wait
from roost_engine.domain.model import JobId
from roost_engine.engine import EngineConfig, Passing
from roost_engine.job_record import JobState
from roost_engine.plugins.plugins import Policies
from roost_engine.queue.orders import OrderByValue
from roost_engine.testing.builders import (
    EngineHarness,
    bridges,
    job,
    node,
    placed,
    share,
    waits,
)

# -- patience ----------------------------------------------------------------------------------


class Stream:
    """An endless stream of one-GPU jobs of 80 s, one every 10 s, which keeps 8 GPUs busy."""

    def __init__(self, harness: EngineHarness) -> None:
        self.harness = harness
        self._ends: list[tuple[float, str]] = []

    def run_until(self, job_id: str, limit_s: float) -> float | None:
        """Let time pass. Returns when a job was placed; None if it was not by `limit_s`."""
        harness = self.harness
        while harness.now_s < limit_s:
            harness.advance(harness.now_s + 10.0)
            while self._ends and self._ends[0][0] <= harness.now_s:
                harness.end(self._ends.pop(0)[1])
            name = f"{harness.now_s:.0f}"
            for started in placed(harness.run(job(name, submit_s=harness.now_s))):
                self._ends.append((harness.now_s + 80.0, started))
            for ended in placed(harness.actions[-3:]):
                if ended == job_id:
                    return harness.now_s
        return None


def test_a_big_job_is_not_starved_by_small_ones(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges(), config=EngineConfig(patience_s=200.0))
    small = Stream(harness)
    small.run_until("", 200.0)
    harness.queue(job("big", gpus=8, submit_s=200.0))
    placed_s = small.run_until("big", 2000.0)
    assert placed_s is not None
    assert 200.0 + 200.0 < placed_s <= 200.0 + 200.0 + 80.0 + 10.0


def test_small_jobs_pass_a_large_job_within_its_patience(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges(), config=EngineConfig(patience_s=1e9))
    small = Stream(harness)
    small.run_until("", 200.0)
    harness.queue(job("big", gpus=8, submit_s=200.0))
    assert small.run_until("big", 2000.0) is None


def test_the_emptiest_node_is_reserved_for_a_job_past_its_patience(
    make_harness: HarnessFactory,
) -> None:
    harness = impatient(make_harness)
    harness.queue(job("2", gpus=4), job("3", gpus=4))
    assert harness.placement("2").nodes == ("b",)
    assert harness.state("3") is JobState.WAITING
    exclusions = dict(harness.engine.record(JobId("3")).exclusions)
    assert exclusions["kept free for a job that waits longer"] == 1
    assert list(placed(harness.end("on-a"))) == ["1"]


def test_a_job_whose_nodes_are_down_leaves_the_reservation_to_the_next(
    make_harness: HarnessFactory,
) -> None:
    nodes = [node("a"), node("down", usable=False)]
    harness = make_harness(nodes, bridges(), config=EngineConfig(patience_s=200.0))
    harness.queue(job("never", gpus=8, required=["down"]))
    small = Stream(harness)
    small.run_until("", 200.0)
    harness.queue(job("big", gpus=8, submit_s=200.0))
    placed_s = small.run_until("big", 2000.0)
    assert placed_s is not None
    assert placed_s <= 200.0 + 200.0 + 80.0 + 10.0
    assert harness.state("never") is JobState.WAITING


def test_an_overdue_job_whose_nodes_are_down_hides_no_impatient_one(
    make_harness: HarnessFactory,
) -> None:
    ranks = {"on-a": 0.0, "never": 0.0, "fresh": 1.0, "early": 2.0, "small": 3.0}
    order = OrderByValue(lambda record, at_s: (ranks[record.job_id],), longest_wait_s=1_000.0)
    harness = make_harness(
        [node("a"), node("down", usable=False)],
        config=EngineConfig(patience_s=200.0),
        policies=Policies(order=order),
    )
    harness.run(job("on-a", gpus=4))
    harness.queue(job("never", gpus=8, required=["down"]))
    harness.advance(900.0)
    harness.queue(job("early", gpus=8, submit_s=900.0))
    harness.advance(1_150.0)
    harness.queue(job("fresh", gpus=8, submit_s=1_150.0))
    harness.queue(job("small", submit_s=1_150.0))
    assert harness.state("small") is JobState.WAITING
    assert list(placed(harness.end("on-a"))) == ["fresh"]


def test_a_job_that_joins_a_group_blocked_by_a_reservation_waits(
    make_harness: HarnessFactory,
) -> None:
    harness = impatient(make_harness)
    harness.queue(job("2", gpus=7))
    (wait,) = harness.queue(job("3", gpus=7))
    assert isinstance(wait, Wait)
    assert (wait.job_id, wait.reason) == ("3", "waits for 7 GPUs on one node")


def test_a_job_earlier_in_order_may_take_a_reserved_node(make_harness: HarnessFactory) -> None:
    harness = impatient(make_harness)
    harness.queue(job("2", gpus=7, priority=1))
    assert harness.placement("2").nodes == ("a",)


def test_a_reservation_ends_when_its_job_is_withdrawn(
    make_harness: HarnessFactory,
) -> None:
    harness = impatient(make_harness)
    harness.queue(job("2", gpus=7))
    assert harness.state("2") is JobState.WAITING
    withdraw(harness, "1")
    assert harness.placement("2").nodes == ("a",)


def test_patience_counts_from_before_a_refusal(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges(), config=EngineConfig(patience_s=60.0))
    harness.queue(job("1", gpus=8))
    harness.refuse("1")
    harness.start_elsewhere("outsider", share("a", 0))
    harness.advance(61.0)
    harness.queue(job("2"))
    assert harness.state("2") is JobState.WAITING


def test_nodes_are_reserved_for_one_job_only(make_harness: HarnessFactory) -> None:
    config = EngineConfig(patience_s=60.0)
    harness = make_harness([node("a"), node("b")], bridges(), config=config)
    for job_id, name in (("1", "a"), ("2", "b")):
        harness.start_elsewhere(f"on-{name}", share(name, 0))
        harness.queue(job(job_id, gpus=8, required=[name]))
    harness.advance(60.0)
    harness.queue(job("20", gpus=7))
    assert harness.placement("20").nodes == ("b",)
    assert "21" in waits(harness.queue(job("21", gpus=7)))


def test_nodes_are_reserved_for_an_older_job_behind_a_newer_head_of_its_group(
    make_harness: HarnessFactory,
) -> None:
    harness = impatient(make_harness)
    harness.queue(job("head", gpus=8, priority=5))
    assert "2" in waits(harness.queue(job("2", gpus=7)))
    assert "3" in placed(harness.queue(job("3", gpus=7, priority=1)))


# -- backfill ----------------------------------------------------------------------------------


def test_no_job_passes_where_passing_is_nobody(make_harness: HarnessFactory) -> None:
    config = EngineConfig(passing=Passing.NOBODY, patience_s=0.0)
    harness = make_harness([node("a")], bridges(), config=config)
    harness.run(job("1", gpus=4))
    harness.queue(job("2", gpus=8, submit_s=1.0), job("3", gpus=1, submit_s=2.0))
    assert harness.engine.waiting() == (JobId("2"), JobId("3"))


def test_a_job_that_ends_in_time_backfills_on_reserved_nodes(make_harness: HarnessFactory) -> None:
    config = EngineConfig(patience_s=0.0)
    harness = make_harness([node("a")], bridges(), config=config)
    harness.run(job("1", gpus=4, time_limit_s=100.0))
    # Job 2 starts when job 1 has ended, at 100 s. Of the four GPUs that are free until then job 4
    # gets two and job 6 gets two; then job 7 does not fit.
    harness.queue(
        job("2", gpus=8, submit_s=1.0),
        job("3", gpus=2, time_limit_s=101.0, submit_s=2.0),
        job("4", gpus=2, time_limit_s=100.0, submit_s=3.0),
    )
    harness.start("4")
    harness.queue(job("5", gpus=2, submit_s=4.0), job("6", gpus=2, time_limit_s=10.0, submit_s=5.0))
    harness.start("6")
    harness.queue(job("7", gpus=2, time_limit_s=10.0, submit_s=6.0))
    assert harness.engine.waiting() == tuple(JobId(job_id) for job_id in "2357")


@pytest.mark.parametrize(("gpus", "passing"), [(2, ["4", "5"]), (3, ["4"])])
def test_all_jobs_that_end_in_time_backfill_in_one_pass(
    make_harness: HarnessFactory, gpus: int, passing: list[str]
) -> None:
    harness = make_harness([node("a")], bridges(), config=EngineConfig(patience_s=0.0))
    harness.run(job("1", gpus=4, time_limit_s=100.0), job("2", gpus=4, time_limit_s=20.0))
    # The node is full, so no job fits and no hint says that one could. When job 2 ends, four GPUs
    # are free until job 1 ends and job 3 gets all eight: job 4 fits, and job 5 if it wants two.
    harness.queue(
        job("3", gpus=8, submit_s=1.0),
        job("4", gpus=2, time_limit_s=10.0, submit_s=2.0),
        job("5", gpus=gpus, time_limit_s=10.0, submit_s=3.0),
    )
    assert list(placed(harness.end("2"))) == passing
