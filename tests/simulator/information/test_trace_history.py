"""What the jobs of a trace teach a history of run times."""

import numpy as np
import pytest

from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_sim.information.trace_history import PastJobs, job_specs, learned_from
from roost_sim.traces.trace import Trace, make_trace


def trace() -> Trace:
    """Two users; the second job begins 100 s after it was submitted."""
    return make_trace(
        "made",
        submit_s=[0.0, 10.0, 500.0],
        duration_s=np.array([300.0, 20.0, 30.0]),
        gpu_count=np.array([1, 8, 8], dtype=np.int32),
        user_id=np.array([0, 1, 1], dtype=np.int32),
        wait_s=np.array([0.0, 100.0, 0.0]),
        user_names=("u0", "u1"),
    )


def test_jobs_that_have_ended_are_reported_in_the_order_of_their_ends() -> None:
    past = PastJobs(trace(), RunTimeHistory())
    past.submit(0)
    past.submit(1)
    assert list(past.advance(129.0)) == []
    assert [(spec.job_id, run_s, at_s) for spec, run_s, at_s in past.advance(1_000.0)] == [
        ("1", 20.0, 130.0),
        ("0", 300.0, 300.0),
    ]


def test_what_was_learned_is_as_of_the_last_end() -> None:
    state = learned_from(trace())
    assert state.running == ()
    assert max(state.at_s) == 0.0
    assert min(state.at_s) == -230.0  # user 0 ended 230 s before the last job
    history = RunTimeHistory()
    history.restore(state)
    wide = job_specs(trace())[2]
    assert history.times(wide, 0.0, 0.0).job_count == pytest.approx(1.9, abs=0.01)
    assert history.times(wide, 0.0, 0.0).is_of_user


def test_an_empty_trace_teaches_nothing() -> None:
    assert learned_from(trace().limit(0)).kinds == ()
