import numpy as np
import pytest
from tests.training.run_time_traces import repeating

from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.prediction.run_time.run_time_features import COLUMNS
from roost_sim.information.trace_history import job_specs
from roost_sim.traces.trace import Labels, make_trace
from roost_train.runtimes.run_time_jobs import replay


def test_a_job_is_described_before_anything_of_itself_is_known() -> None:
    trace = make_trace(
        "made",
        submit_s=[0.0, 50.0, 200.0],
        duration_s=[100.0, 5_000.0, 10.0],
        gpu_count=[1, 1, 1],
        user_id=np.zeros(3, np.int32),
        user_names=("u",),
    )
    jobs = replay(trace)
    assert jobs.user_ended_count.tolist() == [0, 0, 1]
    # The first job had not ended when the second came; of the third the first is known.
    assert jobs.last_two_s.tolist() == [3_600.0, 3_600.0, 100.0]
    assert jobs.median_s.tolist() == [3_600.0, 3_600.0, 100.0]
    fresh = RunTimeHistory().times(job_specs(trace)[0], 0.0, 0.0).ending_fracs
    assert np.array_equal(jobs.history_fracs[0], fresh)
    assert np.array_equal(jobs.history_fracs[1], fresh)
    assert jobs.history_fracs[2, 5] > fresh[5]  # from 75 s to 114 s
    running = COLUMNS.index("running")
    assert jobs.features[:, running] == pytest.approx(np.log1p([0, 1, 1]))


def test_a_job_ends_when_it_did_in_the_trace_with_its_wait() -> None:
    trace = make_trace(
        "made",
        submit_s=[0.0, 150.0],
        duration_s=[100.0, 10.0],
        gpu_count=[1, 1],
        user_id=np.zeros(2, np.int32),
        wait_s=[60.0, 0.0],
        user_names=("u",),
    )
    assert replay(trace).user_ended_count.tolist() == [0, 0]


def test_accounts_stand_for_users_that_are_not_known() -> None:
    accounts = Labels(np.array([1, 0], np.int32), ("a", "b"))
    trace = make_trace("made", [0.0, 1.0], [5.0, 5.0], [4, 4], labels={"account": accounts})
    specs = job_specs(trace)
    assert [(spec.user_id, spec.account) for spec in specs] == [(1, ""), (0, "")]


def test_shapes_names_and_limits_are_those_of_the_trace() -> None:
    trace = make_trace(
        "made",
        [0.0, 1.0],
        [5.0, 5.0],
        [16, 3],
        node_count=[2, -1],
        user_id=np.array([0, -1], np.int32),
        labels={"qos": Labels(np.array([0, -1], np.int32), ("high",))},
        time_limit_s=[60.0, np.inf],
        user_names=("u",),
    )
    wide, small = job_specs(trace)
    assert (wide.gpu_count, wide.shapes[0].node_count, wide.qos) == (16, 2, "high")
    assert (small.gpu_count, small.shapes[0].node_count, small.qos) == (3, 1, "")
    assert (wide.time_limit_s, small.time_limit_s) == (60.0, None)


def test_progress_counts_every_job() -> None:
    done = list[int]()
    jobs = replay(repeating(30), done.append)
    assert done == list(range(1, 31))
    assert len(jobs) == 30
    assert np.isfinite(jobs.features).all()
    assert jobs.history_fracs.sum(axis=1) == pytest.approx(1.0)
