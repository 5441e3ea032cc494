"""Expected starts and ends as operator.proto has them, and what is said when there are none."""

from math import inf

import pytest
from tests.daemon.app.parts import Parts

from roost_engine.domain.errors import UnknownJob
from roost_engine.domain.events import JobEnded, JobQueued, JobStarted
from roost_engine.domain.model import JobId
from roost_engine.forecast.forecast import Forecast, JobForecast, Quantiles
from roost_engine.testing.builders import job, share
from roost_proto.v1 import operator_pb2 as pb
from roostd.rpc.errors import NoForecast
from roostd.rpc.messages import eta
from roostd.state import LeftQueue, UnmanagedJob

SOON, LATE = Quantiles(60.0, 120.0, 600.0), Quantiles(660.0, 1_200.0, inf)
NEVER = Quantiles(3_600.0, inf, inf)


@pytest.fixture
def parts() -> Parts:
    """A job that runs and two that wait, and a forecast that is 10 s old."""
    parts = Parts("n1")
    for name in ("1", "2", "3"):
        parts.state.engine.step(JobQueued(at_s=100.0, job=job(name, gpus=8)))
    shares = (share("n1", *range(8)),)
    parts.state.engine.step(JobStarted(at_s=100.0, job_id=JobId("1"), shares=shares))
    parts.state.forecast = Forecast(
        at_s=100.0,
        play_count=20,
        jobs={
            JobId("1"): JobForecast(None, SOON),
            JobId("3"): JobForecast(SOON, LATE),
            JobId("2"): JobForecast(LATE, NEVER),
        },
    )
    parts.clock.at_s = 110.0
    return parts


def test_waiting_jobs_are_listed_in_the_order_of_their_starts(parts: Parts) -> None:
    found = eta.response(parts.state, None)
    found.etas.extend(eta.etas(parts.state))
    assert [one.job_id for one in found.etas] == ["3", "2"]
    assert (found.age_s, found.play_count, found.interval_frac) == (10.0, 20, 0.8)
    assert (found.fault, found.missing_count) == ("", 0)


def test_times_count_from_now_and_what_is_not_known_is_absent(parts: Parts) -> None:
    (one,) = eta.response(parts.state, JobId("2")).etas
    assert (one.start.low_s, one.start.median_s) == (650.0, 1_190.0)
    assert not one.start.HasField("high_s")
    assert one.end.low_s == 3_590.0
    assert not one.end.HasField("median_s")
    assert (one.gpu_count, one.state) == (8, pb.JOB_STATE_WAITING)


def test_a_job_that_runs_has_an_end_only(parts: Parts) -> None:
    (one,) = eta.response(parts.state, JobId("1")).etas
    assert not one.HasField("start")
    assert one.end.median_s == 110.0


def test_a_time_that_has_passed_is_now(parts: Parts) -> None:
    parts.clock.at_s = 190.0
    (one,) = eta.response(parts.state, JobId("3")).etas
    assert (one.start.low_s, one.start.median_s) == (0.0, 30.0)


def test_a_job_that_came_after_the_forecast(parts: Parts) -> None:
    parts.state.engine.step(JobQueued(at_s=110.0, job=job("4", gpus=8)))
    with pytest.raises(NoForecast, match="job 4 came after the last forecast; ask again in 30 s"):
        eta.response(parts.state, JobId("4"))
    assert eta.response(parts.state, None).missing_count == 1


def test_a_job_that_does_not_exist(parts: Parts) -> None:
    with pytest.raises(UnknownJob):
        eta.response(parts.state, JobId("77"))


def test_a_job_that_has_ended(parts: Parts) -> None:
    parts.state.engine.step(JobEnded(at_s=110.0, job_id=JobId("1")))
    left = LeftQueue(reason="off", owner=None, submit_s=0.0, left_s=9.0)
    parts.state.left_queue[JobId("7")] = left
    with pytest.raises(NoForecast, match="job 7 has left Slurm's queue; ask sacct -j 7"):
        eta.response(parts.state, JobId("7"))
    with pytest.raises(NoForecast, match="job 1 has ended"):
        eta.response(parts.state, JobId("1"))


def test_a_job_that_slurm_places(parts: Parts) -> None:
    parts.state.unmanaged[JobId("8")] = UnmanagedJob(reason="it is exclusive", is_blocked=False)
    with pytest.raises(NoForecast, match="left to Slurm: it is exclusive; ask squeue --start -j 8"):
        eta.response(parts.state, JobId("8"))


def test_a_held_job_is_not_said_to_be_left_to_slurm(parts: Parts) -> None:
    parts.state.unmanaged[JobId("8")] = UnmanagedJob(reason="is held", is_blocked=True)
    with pytest.raises(NoForecast, match="job 8 has no forecast: is held; it gets one once"):
        eta.response(parts.state, JobId("8"))


def test_a_job_without_gpus_is_not_told_to_ask_again(parts: Parts) -> None:
    cpus_only = (share("n1"),)
    parts.state.engine.step(JobStarted(at_s=110.0, job_id=JobId("9"), shares=cpus_only))
    with pytest.raises(NoForecast, match="job 9 asks for no GPUs"):
        eta.response(parts.state, JobId("9"))


def test_before_the_first_forecast_and_when_there_are_none(parts: Parts) -> None:
    parts.state.forecast = None
    with pytest.raises(NoForecast, match="no forecast yet: the first one takes up to 30 s"):
        eta.response(parts.state, None)
    parts.state.forecast_fault = "the process ended"
    with pytest.raises(NoForecast, match="no forecast yet: the process ended"):
        eta.response(parts.state, None)
    off = Parts(eta={"enabled": False}).state
    with pytest.raises(NoForecast, match=r"set eta\.enabled: true"):
        eta.response(off, None)


def test_an_old_forecast_says_why_it_is_old(parts: Parts) -> None:
    parts.clock.at_s = 100.0 + 91.0
    assert eta.response(parts.state, None).fault == "the next one is overdue after 90 s"
    parts.state.forecast_fault = "no answer in 30 s"
    assert eta.response(parts.state, None).fault == "no answer in 30 s"
