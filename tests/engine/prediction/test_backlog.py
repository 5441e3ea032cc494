"""backlog: the work that waits over the GPUs that work."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.domain.model import JobId
from roost_engine.prediction.backlog import Backlog

A, B = JobId("a"), JobId("b")


def test_what_waits_is_shared_by_the_gpus_that_work() -> None:
    backlog = Backlog()
    backlog.wait(A, 600.0)
    backlog.wait(B, 200.0)
    assert backlog.drain_s() == 800.0  # no GPU works: as if one did
    backlog.start(B, 4)
    assert backlog.drain_s() == 150.0


def test_a_job_counts_once_whatever_is_reported_of_it() -> None:
    backlog = Backlog()
    backlog.wait(A, 600.0)
    backlog.wait(A, 100.0)
    assert backlog.drain_s() == 100.0
    backlog.start(A, 4)
    backlog.start(A, 2)
    backlog.wait(B, 80.0)
    assert backlog.drain_s() == 40.0
    backlog.wait(A, 20.0)  # it was stopped, and waits again
    assert backlog.drain_s() == 100.0


def test_a_job_that_leaves_the_queue_takes_its_work_along() -> None:
    backlog = Backlog()
    backlog.wait(A, 600.0)
    backlog.start(A, 0)
    assert backlog.drain_s() == 0.0
    backlog.end(A)
    backlog.end(B)
    assert backlog.drain_s() == 0.0


@pytest.mark.parametrize("absurd", [nan, inf, -inf, -5.0])
def test_work_that_is_none_does_not_spoil_the_sum(absurd: float) -> None:
    backlog = Backlog()
    backlog.wait(A, absurd)
    backlog.wait(B, 50.0)
    assert backlog.drain_s() == 50.0
    backlog.start(A, 1)
    assert backlog.drain_s() == 50.0


_steps = st.tuples(
    st.sampled_from(["wait", "start", "leave", "end"]),
    st.sampled_from("abcde").map(JobId),
    st.floats(0.0, 1e7),
)


@given(st.lists(_steps, max_size=60))
def test_the_sums_are_those_of_the_jobs_that_are_left(
    steps: list[tuple[str, JobId, float]],
) -> None:
    backlog = Backlog()
    waiting, running = dict[JobId, float](), dict[JobId, int]()
    for verb, job_id, number in steps:
        running.pop(job_id, None)
        match verb:
            case "wait":
                backlog.wait(job_id, number)
                waiting[job_id] = number
            case "start":
                waiting.pop(job_id, None)
                running[job_id] = 1 + int(number) % 8
                backlog.start(job_id, running[job_id])
            case "leave":
                waiting.pop(job_id, None)
                backlog.start(job_id, 0)
            case _:
                backlog.end(job_id)
    busy = max(sum(running.values()), 1)
    assert backlog.drain_s() == pytest.approx(sum(waiting.values()) / busy, abs=1e-6)
