"""A journal's jobs under another policy: known answers, and what is left as it was."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.simulator.journals import WrittenJournal
from tests.simulator.simulated import arrival, cluster

from roost_engine.domain.events import JobWithdrawn, NodeSeen, Tick
from roost_engine.domain.model import JobId
from roost_engine.testing.builders import bridges, job, node, shape, share, topology
from roost_sim.catalogue.compositions import find_policy
from roost_sim.replays.journal_comparison import JournalComparison, compare_with, read_history
from roost_sim.replays.recording import ModelShelf, Recording
from roost_sim.replays.what_if import narrowed


def compared(path: Path, policy: str = "sjf", *models: Path) -> JournalComparison:
    with Recording(path) as recording:
        history = read_history(recording, lambda count: None)
        return compare_with(recording, history, find_policy(policy), ModelShelf(models))


def test_the_record_and_another_policy_by_hand(three_jobs: Path) -> None:
    found = compared(three_jobs, "sjf")

    # Recorded: starts at 0, 100, 180. Shortest first: job 3 at 100, job 2 at 140.
    recorded, other = found.recorded.figures, found.simulated.figures
    assert (recorded.jobs, other.jobs) == (3, 3)
    assert recorded.avg_wait_s == pytest.approx((0 + 90 + 160) / 3)
    assert other.avg_wait_s == pytest.approx((0 + 130 + 80) / 3)
    assert (recorded.median_wait_s, other.median_wait_s) == (90, 80)
    assert recorded.p95_wait_s == pytest.approx(90 + 0.9 * 70)
    assert recorded.avg_jct_s == pytest.approx((100 + 170 + 200) / 3)
    assert other.avg_jct_s == pytest.approx((100 + 210 + 120) / 3)
    assert recorded.tier_counts == other.tier_counts == (3, 0, 0)
    assert recorded.link_frac == other.link_frac == 1.0
    changes = found.simulated.placement_changes
    assert changes is not None
    assert (changes.same_gpus, changes.other_gpus, changes.other_nodes) == (3, 0, 0)


def test_a_start_that_slurm_delays_is_delayed_in_the_simulation(tmp_path: Path) -> None:
    with WrittenJournal(tmp_path) as journal:
        jobs = (arrival(str(n), float(n), 30.0, 8) for n in range(4))
        journal.simulate(cluster(1), *jobs, start_delay_s=2.0)
    found = compared(journal.path, "fifo")
    assert found.start_delay_s == 2.0
    assert found.simulated.figures == found.recorded.figures


def test_jobs_that_go_elsewhere_are_counted_and_scored(tmp_path: Path) -> None:
    with WrittenJournal(tmp_path) as journal:
        journal.feed(NodeSeen(at_s=0.0, node=node("n1")), topology("n1", bridges()))
        # Plain Slurm put the first on GPUs 0 and 2, which have no NVLink; the second on a pair.
        for job_id, gpus in (("1", (0, 2)), ("2", (6, 7))):
            journal.queue(1.0, job(job_id, gpus=2, submit_s=1.0, binding=False))
            journal.start(1.0, job_id, share("n1", *gpus))
        journal.end(9.0, "1", "2")
    found = compared(journal.path, "fifo")

    recorded, other = found.recorded.figures, found.simulated.figures
    assert recorded.link_score is not None
    assert other.link_score is not None
    assert recorded.link_score < other.link_score
    assert (recorded.link_frac, other.link_frac) != (1.0, 1.0)
    assert other.link_frac == 1.0
    changes = found.simulated.placement_changes
    assert changes is not None
    assert (changes.other_gpus + changes.same_gpus, changes.other_nodes) == (2, 0)
    assert changes.other_gpus >= 1


def test_another_node_is_no_mere_other_gpu(tmp_path: Path) -> None:
    with WrittenJournal(tmp_path) as journal:
        journal.feed(*(NodeSeen(at_s=0.0, node=node(name)) for name in ("n1", "n2")))
        journal.queue(1.0, job("1", gpus=8))
        journal.start(1.0, "1", share("n2", *range(8)))
        journal.end(9.0, "1")
    changes = compared(journal.path, "fifo").simulated.placement_changes
    assert changes is not None
    assert (changes.same_gpus, changes.other_gpus, changes.other_nodes) == (0, 0, 1)


def test_gangs_are_counted_by_tier(tmp_path: Path) -> None:
    with WrittenJournal(tmp_path) as journal:
        for name, rack in (("n1", "a"), ("n2", "b"), ("n3", "b")):
            journal.feed(NodeSeen(at_s=0.0, node=node(name, rack=rack)))
        journal.queue(1.0, job("1", gpus=8, nodes=2))
        journal.start(1.0, "1", share("n1", *range(8)), share("n2", *range(8)))
        journal.end(9.0, "1")
    found = compared(journal.path, "fifo")
    assert found.recorded.figures.tier_counts == (0, 0, 1)
    assert found.simulated.figures.tier_counts == (0, 1, 0)


def test_outsiders_stay_where_and_when_they_were(tmp_path: Path) -> None:
    with WrittenJournal(tmp_path) as journal:
        journal.feed(NodeSeen(at_s=0.0, node=node("n1")))
        journal.start(0.0, "other", share("n1", *range(8)))
        journal.queue(5.0, job("1", gpus=8, submit_s=5.0))
        journal.end(50.0, "other")
        journal.start(50.0, "1")
        journal.end(60.0, "1")
    found = compared(journal.path, "sjf")
    assert found.history.outsider_count == 1
    assert found.simulated.figures.avg_wait_s == 45.0


def test_jobs_that_had_not_ended_run_as_long_as_their_like(tmp_path: Path) -> None:
    with WrittenJournal(tmp_path) as journal:
        journal.feed(NodeSeen(at_s=0.0, node=node("n1")))
        for number, (begin_s, end_s) in enumerate(((0.0, 10.0), (10.0, 50.0), (50.0, 110.0))):
            journal.queue(begin_s, job(str(number), gpus=8, submit_s=begin_s))
            journal.start(begin_s, str(number))
            journal.end(end_s, str(number))
        journal.queue(110.0, job("runs", gpus=8, submit_s=110.0))
        journal.start(110.0, "runs")
        journal.queue(111.0, job("waits", gpus=8, submit_s=111.0))
        journal.feed(Tick(at_s=130.0))
    found = compared(journal.path, "fifo")

    # Ended jobs ran 10, 40 and 60 s. The one that had run for 20 s is taken to run 60 in all, the
    # median of 40 and 60 with ties upwards; the one that waited 40, the median of all.
    assert found.fates() == {"ended": 3, "running": 1, "waiting": 1, "left": 0, "lost": 0}
    assert found.recorded.figures.jobs == 3
    assert found.simulated.all_jobs == 5
    assert found.simulated.all_avg_jct_s == pytest.approx((10 + 40 + 60 + 60 + (59 + 40)) / 5)
    assert found.simulated.all_avg_wait_s == pytest.approx(59 / 5)


def test_a_job_that_was_cancelled_while_it_waited_is_not_compared(tmp_path: Path) -> None:
    with WrittenJournal(tmp_path) as journal:
        journal.feed(NodeSeen(at_s=0.0, node=node("n1")))
        journal.queue(0.0, job("1", gpus=8))
        journal.start(0.0, "1")
        journal.queue(5.0, job("2", gpus=8), job("3", gpus=8))
        journal.end(20.0, "2")
        journal.feed(JobWithdrawn(at_s=30.0, job_id=JobId("3"), reason="held"))
        journal.end(40.0, "1")
    found = compared(journal.path, "fifo")
    assert found.fates()["left"] == 2
    assert (found.recorded.figures.jobs, found.simulated.all_jobs) == (1, 1)


def test_a_policy_may_be_choosier_than_a_job_and_never_less_so() -> None:
    one, two, four = shape(8), shape(4, 2), shape(2, 4)
    assert narrowed((one, two), (one,)) == (one,)
    assert narrowed((two, one), (one, two, four)) == (two, one)
    assert narrowed((four,), (one,)) == (four,)
    assert narrowed((shape(8, cpus_per_node=32),), (one,)) == (shape(8, cpus_per_node=32),)


def test_a_change_of_the_request_is_followed(tmp_path: Path) -> None:
    with WrittenJournal(tmp_path) as journal:
        journal.feed(NodeSeen(at_s=0.0, node=node("n1")))
        journal.queue(0.0, job("1", gpus=8), job("2", gpus=8), job("3", gpus=8))
        journal.start(0.0, "1")
        changed = replace(job("3", gpus=8), priority=5)
        journal.queue(10.0, changed)  # as a restarted daemon tells it
        journal.end(30.0, "1")
        journal.start(30.0, "3")
        journal.end(40.0, "3")
        journal.start(40.0, "2")
        journal.end(60.0, "2")
    found = compared(journal.path, "fifo")
    # Priority first, so job 3 starts at 30 again: waits of 0, 40 and 30 s.
    assert found.simulated.figures == found.recorded.figures
    assert found.simulated.figures.avg_wait_s == pytest.approx(70 / 3)
