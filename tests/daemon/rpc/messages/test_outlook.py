"""A job's turn and its expected run time as operator.proto has them."""

import pytest
from tests.daemon.app.parts import Parts

from roost_engine.domain.events import JobEnded, JobQueued
from roost_engine.domain.model import JobId
from roost_engine.forecast.forecast import Forecast, JobForecast, Quantiles
from roost_engine.plugins.plugins import Plugins
from roost_engine.plugins.stacks import OrderKind
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import job
from roost_proto.v1 import operator_pb2 as pb
from roostd.rpc.messages import explanations, jobs
from roostd.rpc.messages.outlook import outlooks


def parts_with(order: OrderKind) -> Parts:
    """A node whose GPUs the first of three jobs has."""
    parts = Parts("n1", policies=Plugins(order=order).policies(HeuristicScore()))
    predictors = parts.state.engine.policies.predictors
    if predictors is not None:  # without a job of its user the number of GPUs would not count
        predictors.history.add(job("90"), 3_600.0, 0.0)
    for number, gpus in (("1", 8), ("2", 8), ("3", 1)):
        spec = job(number, gpus=gpus, submit_s=90.0)
        parts.state.engine.step(JobQueued(at_s=100.0, job=spec))
    return parts


def explained(parts: Parts, job_id: str) -> pb.Explanation:
    return explanations.explanation(parts.state, JobId(job_id))


def test_a_waiting_job_has_a_turn_and_an_expected_run() -> None:
    parts = parts_with(OrderKind.LEARNED)
    found = explained(parts, "2")
    turn, run = found.turn, found.expected_run
    assert (turn.position, turn.of_count, turn.slurm_position) == (2, 2, 1)
    assert (turn.order, turn.precedence) == ("learned", 0)
    assert run.low_s < run.median_s < run.high_s
    assert run.similar_count > 0.9
    # It has waited for 10 s since its submission, and each GPU-second counts two seconds.
    assert turn.overtaken_for_s == pytest.approx(2.0 * run.gpu_s - 10.0)


def test_a_job_that_starts_has_no_turn_and_one_that_ended_no_expectation() -> None:
    parts = parts_with(OrderKind.LEARNED)
    assert not explained(parts, "1").HasField("turn")
    assert explained(parts, "1").HasField("expected_run")
    parts.state.engine.step(JobEnded(at_s=101.0, job_id=JobId("2")))
    assert not explained(parts, "2").HasField("expected_run")


def test_the_list_of_jobs_has_turns_and_run_times_of_those_that_wait() -> None:
    parts = parts_with(OrderKind.LEARNED)
    run = Quantiles(60.0, 120.0, 600.0)
    parts.state.forecast = Forecast(
        at_s=90.0, play_count=20, jobs={JobId("3"): JobForecast(run, run, run)}
    )
    listed = {
        message.job_id: message
        for message in jobs.jobs(parts.state, False, dict(outlooks(parts.state)))
    }
    assert not listed["1"].HasField("turn")
    assert [listed[name].turn.position for name in "23"] == [2, 1]
    assert listed["2"].turn == explained(parts, "2").turn
    assert not listed["2"].HasField("expected_run")
    assert listed["3"].expected_run == pb.ExpectedTime(low_s=60.0, median_s=120.0, high_s=600.0)
    assert jobs.job(parts.state, JobId("3")) == listed["3"]


def test_slurms_order_has_turns_alone() -> None:
    found = explained(parts_with(OrderKind.PRIORITY), "3")
    assert (found.turn.order, found.turn.position) == ("priority", 2)
    assert not found.turn.HasField("overtaken_for_s")
    assert not found.HasField("expected_run")
