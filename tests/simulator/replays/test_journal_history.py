"""What a journal says happened: jobs, outsiders, nodes, over several runs."""

from pathlib import Path

import numpy as np
import pytest
from tests.simulator.journals import WrittenJournal

from roost_engine.domain.events import (
    JobChanged,
    JobEnded,
    JobsStopped,
    JobStarted,
    JobWithdrawn,
    NodeLost,
    NodeSeen,
)
from roost_engine.domain.model import JobId, NodeName
from roost_engine.testing.builders import job, load_seen, node, share
from roost_sim.replays.journal_comparison import read_history
from roost_sim.replays.journal_history import Fate, History, RecordedJob
from roost_sim.replays.recording import Recording


def told(journal: WrittenJournal) -> History:
    with Recording(journal.path) as recording:
        return read_history(recording, lambda count: None)


def by_id(history: History) -> dict[str, RecordedJob]:
    return {one.spec.job_id: one for one in history.jobs}


@pytest.fixture
def journal(tmp_path: Path) -> WrittenJournal:
    """One node of eight GPUs, seen at 1 s."""
    written = WrittenJournal(tmp_path)
    written.feed(NodeSeen(at_s=1.0, node=node("n1")))
    return written


def test_a_job_waits_runs_and_ends(journal: WrittenJournal) -> None:
    with journal:
        journal.queue(5.0, job("7", gpus=2, submit_s=4.0))
        journal.start(5.4, "7")
        journal.end(25.4, "7")
    history = told(journal)
    (found,) = history.jobs
    assert (found.fate, found.since_s, found.arrived_s) == (Fate.ENDED, 4.0, 5.0)
    assert (found.started_s, found.ended_s, found.held_s) == (5.4, 25.4, 20.0)
    assert found.shares == (share("n1", 0, 1, cpu_count=1),)
    assert history.start_delay_s == pytest.approx(0.4)
    assert (history.began_s, history.ended_s) == (1.0, 25.4)
    assert (history.outsider_count, history.load_count) == (0, 0)


def test_a_wait_counts_from_when_the_job_may_run(journal: WrittenJournal) -> None:
    with journal:
        journal.queue(5.0, job("1", submit_s=4.0, eligible_s=9.0))
        journal.queue(6.0, job("2", submit_s=4.0))
        journal.feed(JobWithdrawn(at_s=7.0, job_id=JobId("2"), reason="held"))
        journal.queue(30.0, job("2", submit_s=4.0))
        for job_id in ("1", "2"):
            journal.start(31.0, job_id, share("n1", int(job_id)))
            journal.end(32.0, job_id)
    jobs = by_id(told(journal))
    assert (jobs["1"].since_s, jobs["1"].arrived_s) == (9.0, 5.0)
    assert (jobs["2"].since_s, jobs["2"].arrived_s) == (30.0, 30.0)


def test_changes_of_a_waiting_job_are_kept(journal: WrittenJournal) -> None:
    with journal:
        journal.queue(5.0, job("1", gpus=8), job("2", gpus=8))
        journal.feed(JobChanged(at_s=5.0, job=job("2", gpus=8, priority=3)))
        journal.feed(JobChanged(at_s=9.0, job=job("2", gpus=4)))
    found = by_id(told(journal))["2"]
    assert found.spec.priority == 3
    assert [(change.at_s, change.job.gpu_count) for change in found.changes] == [(9.0, 4)]


def test_a_requeued_job_is_one_job_that_held_gpus_twice(journal: WrittenJournal) -> None:
    with journal:
        journal.queue(5.0, job("1", submit_s=5.0))
        journal.start(6.0, "1")
        journal.queue(16.0, job("1", submit_s=5.0))  # by Slurm
        journal.start(20.0, "1")
        journal.feed(JobsStopped(at_s=23.0, job_ids=(JobId("1"),)))  # by Roost
        journal.start(30.0, "1")
        journal.end(34.0, "1")
    (found,) = told(journal).jobs
    assert (found.started_s, found.ended_s) == (6.0, 34.0)
    assert found.held_s == 10.0 + 3.0 + 4.0


def test_an_id_that_comes_twice_stands_for_two_jobs(journal: WrittenJournal) -> None:
    with journal:
        for at_s in (5.0, 50.0):
            journal.queue(at_s, job("1"))
            journal.start(at_s, "1")
            journal.end(at_s + 10.0, "1")
    assert list(by_id(told(journal))) == ["1", "1~2"]


def test_what_slurm_starts_without_asking_stays_outside(journal: WrittenJournal) -> None:
    with journal:
        journal.start(5.0, "no-lease", share("n1", 0, 1))
        journal.start(6.0, "no-gpus", share("n1", cpu_count=16))
        journal.queue(7.0, job("let-go", gpus=64))  # no node could ever hold it
        journal.start(8.0, "let-go", share("n1", 2))
        journal.queue(9.0, job("held"))
        journal.feed(JobWithdrawn(at_s=9.5, job_id=JobId("held"), reason="held"))
        journal.start(9.7, "held", share("n1", 3))
        journal.end(20.0, "no-lease", "no-gpus", "let-go", "held")
    history = told(journal)
    assert history.jobs == ()
    assert history.outsider_count == 3
    started = [event for event in history.outside if isinstance(event, JobStarted)]
    ended = [event for event in history.outside if isinstance(event, JobEnded)]
    names = ["no-lease~outside", "no-gpus~outside", "let-go~outside", "held~outside"]
    assert [event.job_id for event in started] == [event.job_id for event in ended] == names


def test_an_outsider_that_is_requeued_becomes_ours(journal: WrittenJournal) -> None:
    with journal:
        journal.start(5.0, "1", share("n1", 0))
        journal.queue(8.0, job("1"))
        journal.start(9.0, "1")
        journal.end(12.0, "1")
    history = told(journal)
    assert [event.at_s for event in history.outside if isinstance(event, JobEnded)] == [8.0]
    assert by_id(history)["1"].held_s == 3.0


def test_fates_at_the_end_of_the_journal(journal: WrittenJournal) -> None:
    with journal:
        journal.queue(5.0, job("runs", gpus=6), job("waits", gpus=8), job("leaves", gpus=8))
        journal.queue(5.0, job("held", gpus=8))
        journal.start(6.0, "runs")
        journal.end(7.0, "leaves")
        journal.feed(JobWithdrawn(at_s=8.0, job_id=JobId("held"), reason="held"))
        journal.feed(NodeSeen(at_s=26.0, node=node("n2")))
    jobs = by_id(told(journal))
    assert {job_id: one.fate for job_id, one in jobs.items()} == {
        "runs": Fate.RUNNING,
        "waits": Fate.WAITING,
        "leaves": Fate.LEFT,
        "held": Fate.LEFT,
    }
    assert jobs["runs"].held_s == 20.0
    assert [jobs[one].ended_s for one in ("runs", "leaves", "held")] == [26.0, 7.0, 8.0]


def test_after_a_restart_the_same_jobs_continue_and_missing_ones_are_lost(
    journal: WrittenJournal,
) -> None:
    with journal:
        journal.feed(NodeSeen(at_s=1.0, node=node("n2")))
        journal.queue(5.0, job("goes-on", submit_s=5.0), job("gone"), job("waits", gpus=8))
        journal.queue(5.0, job("left", gpus=8))
        journal.start(6.0, "goes-on", share("n1", 0))
        journal.start(6.0, "gone", share("n2", 0))
        journal.begin_run(50.0)
        journal.feed(NodeSeen(at_s=51.0, node=node("n1")))
        journal.queue(51.0, job("waits", gpus=8))
        journal.start(51.0, "goes-on", share("n1", 0))
        journal.end(56.0, "goes-on")
        journal.start(57.0, "waits")
        journal.end(60.0, "waits")
    history = told(journal)
    jobs = by_id(history)
    assert (jobs["goes-on"].started_s, jobs["goes-on"].held_s) == (6.0, 50.0)
    assert (jobs["waits"].arrived_s, jobs["waits"].started_s) == (5.0, 57.0)
    assert (jobs["gone"].fate, jobs["gone"].ended_s) == (Fate.LOST, 50.0)
    assert (jobs["left"].fate, jobs["left"].ended_s) == (Fate.LEFT, 50.0)
    lost = [event for event in history.outside if isinstance(event, NodeLost)]
    assert lost == [NodeLost(at_s=50.0, name=NodeName("n2"))]


def test_a_run_in_which_slurm_never_answered_says_nothing(journal: WrittenJournal) -> None:
    with journal:
        journal.queue(5.0, job("1"))
        journal.start(6.0, "1")
        journal.begin_run(20.0)
        journal.begin_run(30.0)
        journal.feed(NodeSeen(at_s=31.0, node=node("n1")))
        journal.start(31.0, "1", share("n1", 0))
        journal.end(36.0, "1")
    (found,) = told(journal).jobs
    assert (found.fate, found.held_s) == (Fate.ENDED, 30.0)


def test_load_is_counted_and_left_out(journal: WrittenJournal) -> None:
    with journal:
        load = np.zeros((8, 4), dtype=np.float32)
        journal.feed(load_seen(at_s=3.0, name=NodeName("n1"), load=load))
    history = told(journal)
    assert history.load_count == 1
    assert [type(event) for event in history.outside] == [NodeSeen]


def test_the_gpus_of_all_nodes_that_were_ever_there_count_once(journal: WrittenJournal) -> None:
    # n1 says 8; n2 says 2, is lost, and comes back with 4.
    with journal:
        journal.feed(NodeSeen(at_s=2.0, node=node("n2", 2)))
        journal.feed(NodeLost(at_s=3.0, name=NodeName("n2")))
        journal.feed(NodeSeen(at_s=4.0, node=node("n2", 4)))
        journal.feed(NodeSeen(at_s=5.0, node=node("n1")))
    history = told(journal)
    assert (history.gpu_count(), history.largest_node_gpu_count()) == (12, 8)
