"""Starts and ends that hooks report are kept, as many as the engine keeps ended jobs."""

from tests.daemon.app.parts import Parts

from roost_engine.domain.model import JobId
from roost_slurm.hooks.spool import Ended, Started, Submitted
from roostd.app.polls.reported_jobs import note_reported
from roostd.state import ReportedRun


def test_a_start_and_an_end_are_of_one_run_and_a_new_start_of_the_next() -> None:
    state = Parts("n1").state
    now_s = state.clock.now_s()
    note_reported(state, [Submitted(1000, "main"), Started("7"), Ended("7"), Ended("8_1")])
    assert state.reported_runs == {
        JobId("7"): ReportedRun(started_s=now_s, ended_s=now_s),
        JobId("8_1"): ReportedRun(ended_s=now_s),
    }
    note_reported(state, [Started("7")])
    assert state.reported_runs[JobId("7")] == ReportedRun(started_s=now_s)


def test_the_oldest_reports_are_forgotten() -> None:
    state = Parts("n1").state
    kept = state.engine.config.ended_job_count
    note_reported(state, [Ended(str(number)) for number in range(kept + 10)])
    assert next(iter(state.reported_runs)) == "10"
    assert len(state.reported_runs) == kept
