"""Views of the queue: what Slurm's own rules add to jobs, and what is not read again."""

from dataclasses import replace
from typing import Any

import pytest
from tests.daemon.slurm.watcher import Watcher

from roost_engine.domain.events import (
    JobChanged,
    JobQueued,
    JobWithdrawn,
)
from roost_engine.domain.model import NodeName
from roost_slurm.text.partitions import Partition
from roost_slurm.text.reservations import Reservation
from roost_slurm.text.scheduling import Scheduling
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roost_slurm.text.stamp import OTHERS
from roostd.slurm.jobs import STEERED_BY_ANOTHER, JobReader
from roostd.slurm.port import QueueSnapshot
from roostd.slurm.queue_reading import view
from roostd.slurm.queue_view import SiteView, SlurmQueueView
from roostd.slurm.rules.site_rules import SiteRules


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


@pytest.mark.parametrize("task_count", [2, 200])
def test_the_ids_of_an_array_are_made_once_however_many_tasks_it_has(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch, task_count: int
) -> None:
    """A record of 20,000 tasks held the interpreter for a minute when each task made them."""
    made: list[int] = []

    def count(job: QueuedJob) -> tuple[str, ...]:
        made.append(job.number)
        return tuple(f"{job.array_number}_{task}" for task in job.task_ids)

    monkeypatch.setattr(QueuedJob, "job_ids", property(count))
    array = QueuedJob(number=9, array_number=9, task_ids=tuple(range(task_count)))
    snapshot = QueueSnapshot(at_epoch_s=0.0, jobs=(array,))
    found = view(snapshot, watcher.reader, [], watcher.view, 0.0, watcher.site)

    assert len(found.unmanaged) == task_count
    assert made == [9]


# -- Slurm's own rules -------------------------------------------------------------------------


async def test_a_job_that_slurm_would_not_start_is_withdrawn_and_left_to_slurm_in_time(
    watcher: Watcher,
) -> None:
    down = SiteRules(partitions={"main": Partition(name="main", state="DOWN")})
    watcher.site = SiteView(rules=down, hand_over_s=30.0)
    (job_id,) = watcher.slurm.submit(gpus=2)
    (event,) = await watcher.poll()
    assert isinstance(event, JobWithdrawn)
    assert event.reason.startswith("Slurm would not start it: PartitionDown")
    assert job_id in watcher.view.blocked

    watcher.now_s += 29.0
    assert await watcher.poll() == ()
    watcher.now_s += 1.0
    await watcher.poll()
    assert "PartitionDown" in watcher.view.unmanaged[job_id]


async def test_a_job_avoids_nodes_for_as_long_as_the_site_says(watcher: Watcher) -> None:
    (job_id,) = watcher.slurm.submit(gpus=2)
    await watcher.poll()
    avoided = frozenset({NodeName("n1")})
    for site, excluded in ((SiteView(avoided={job_id: avoided}), ("n1",)), (SiteView(), ())):
        watcher.site = site
        (event,) = await watcher.poll()
        assert isinstance(event, JobChanged)
        assert event.job.excluded_nodes == excluded
        assert await watcher.poll() == ()


async def test_a_job_that_is_handed_over_is_left_to_slurm_whatever_it_asks_for(
    watcher: Watcher,
) -> None:
    (job_id,) = watcher.slurm.submit(gpus=2)
    await watcher.poll()
    watcher.site = SiteView(handed_over={job_id: "left to Slurm"})
    (event,) = await watcher.poll()
    assert isinstance(event, JobWithdrawn)
    assert event.reason == "left to Slurm"
    assert watcher.view.unmanaged == {job_id: "left to Slurm"}


@pytest.mark.parametrize(("their_number", "is_left"), [(0, False), (9, True)])
async def test_leases_are_left_once_another_roostd_leases_later_jobs(
    watcher: Watcher, their_number: int, is_left: bool
) -> None:
    (job_id,) = watcher.slurm.submit(gpus=2)
    await watcher.poll()
    snapshot = await watcher.slurm.queue()
    (mine,) = snapshot.jobs
    theirs = replace(mine, number=their_number, admin_comment=f"{OTHERS} owner=2e")
    watcher.slurm.queue = lambda: _same(  # type: ignore[method-assign]
        replace(snapshot, jobs=(mine, theirs))
    )
    await watcher.poll()
    assert (watcher.view.unmanaged.get(job_id) == STEERED_BY_ANOTHER) is is_left
    assert (job_id in watcher.view.waiting) is not is_left


async def test_a_job_from_a_clock_that_was_ahead_counts_as_submitted_now_and_stays_so(
    watcher: Watcher,
) -> None:
    watcher.slurm.submit(gpus=2)
    snapshot = await watcher.slurm.queue()
    week_s = 7 * 86_400.0
    (ahead,) = (replace(job, submit_epoch_s=job.submit_epoch_s + week_s) for job in snapshot.jobs)
    seen = replace(snapshot, jobs=(ahead,))
    watcher.slurm.queue = lambda: _same(seen)  # type: ignore[method-assign]
    (event,) = await watcher.poll()
    assert isinstance(event, JobQueued)
    first_s = watcher.now_s
    assert event.job.submit_s == first_s
    watcher.now_s += 60.0
    seen = replace(snapshot, jobs=(replace(ahead, priority=ahead.priority + 1),))
    (event,) = await watcher.poll()
    assert isinstance(event, JobChanged)
    assert event.job.submit_s == first_s


async def test_a_reason_outlives_a_start_between_squeue_and_scontrol(watcher: Watcher) -> None:
    (job_id,) = watcher.slurm.submit(gpus=2)
    snapshot = await watcher.slurm.queue()
    (job,) = snapshot.jobs
    waiting, left = snapshot.details[job.number], replace(job, admin_comment="")
    absurd = replace(waiting, max_node_count=49_999_999)
    for detail in (
        absurd,
        replace(waiting, state=SlurmJobState.RUNNING),  # it shows the one node that it has got
    ):
        seen = replace(snapshot, jobs=(left,), details={job.number: detail})
        watcher.slurm.queue = lambda seen=seen: _same(seen)  # type: ignore[method-assign, misc]
        await watcher.poll()
        assert watcher.view.unmanaged[job_id].startswith("may get 49999999 nodes")


async def test_a_job_that_slurm_holds_for_its_pin_waits_on(watcher: Watcher) -> None:
    """So that it is placed again; a job that a user holds does not wait."""
    (job_id,) = watcher.slurm.submit(gpus=2)
    await watcher.poll()
    snapshot = await watcher.slurm.queue()
    (job,) = snapshot.jobs
    stamp = "roost:lease was=TresPerNode:gres:gpu:2"
    for reason, is_blocked in (("BadConstraints", False), ("JobHeldUser", True)):
        held = replace(job, priority=0, reason=reason, admin_comment=stamp)
        seen = replace(snapshot, jobs=(held,))
        watcher.slurm.queue = lambda seen=seen: _same(seen)  # type: ignore[method-assign, misc]
        await watcher.poll()
        assert (job_id in watcher.view.blocked) is is_blocked
        assert (job_id in watcher.view.waiting) is not is_blocked


async def test_a_node_of_another_user_is_closed_to_a_job(watcher: Watcher) -> None:
    """Slurm would not start the job beside a job with --exclusive=user."""
    (held,) = watcher.slurm.submit(gpus=1, user_id=7)
    await watcher.pin(held, "n1", 0)
    mine, other = watcher.slurm.submit(gpus=2, user_id=7)[0], watcher.slurm.submit(gpus=2)[0]
    snapshot = await watcher.slurm.queue()
    for word, closed in (("USER", ("n1",)), ("OK", ())):
        jobs = (
            replace(job, over_subscribe=word) if job.is_holding else job for job in snapshot.jobs
        )
        seen = replace(snapshot, jobs=tuple(jobs))
        watcher.slurm.queue = lambda seen=seen: _same(seen)  # type: ignore[method-assign, misc]
        await watcher.poll()
        assert watcher.view.waiting[mine].excluded_nodes == ()
        assert watcher.view.waiting[other].excluded_nodes == closed


async def test_a_job_that_may_get_cpus_of_others_could_start_elsewhere(watcher: Watcher) -> None:
    for over_subscribe, elsewhere in (("FORCE:4", True), ("NO", False)):
        partition = Partition(name="main", over_subscribe=over_subscribe)
        watcher.site = SiteView(rules=SiteRules(partitions={"main": partition}))
        (job_id,) = watcher.slurm.submit(gpus=2)
        await watcher.poll()
        assert watcher.view.waiting[job_id].starts_elsewhere is elsewhere


async def test_a_partition_of_one_user_at_a_time_is_slurms(watcher: Watcher) -> None:
    (job_id,) = watcher.slurm.submit(gpus=2)
    await watcher.poll()
    partition = Partition(name="main", exclusive_to="USER")
    watcher.site = SiteView(rules=SiteRules(partitions={"main": partition}))
    (event,) = await watcher.poll()
    assert isinstance(event, JobWithdrawn)
    assert "one user at a time" in watcher.view.unmanaged[job_id]


async def test_several_nodes_under_a_topology_of_the_partition_are_slurms(watcher: Watcher) -> None:
    several, one = (watcher.slurm.submit(gpus_per_node=1, nodes=(n, n))[0] for n in (2, 1))
    partitions = {name: Partition(name=name, topology=name) for name in ("main", "other")}
    watcher.site = SiteView(rules=SiteRules(partitions=partitions))
    await watcher.poll()
    assert "its own Topology=" in watcher.view.unmanaged[several]
    assert one in watcher.view.waiting
    watcher.site = SiteView(rules=SiteRules(partitions={"main": partitions["main"]}))
    await watcher.poll()
    assert several in watcher.view.waiting


async def test_a_job_whose_partition_is_up_again_is_queued(watcher: Watcher) -> None:
    down = SiteRules(partitions={"main": Partition(name="main", state="DOWN")})
    watcher.site = SiteView(rules=down, hand_over_s=30.0)
    watcher.slurm.submit(gpus=2)
    await watcher.poll()
    watcher.site = SiteView(hand_over_s=30.0)
    assert await watcher.kinds() == [("JobQueued", "1")]


async def test_rules_become_part_of_a_request(watcher: Watcher) -> None:
    partitions = {
        "main": Partition(name="main", tier=5),
        "low": Partition(name="low", tier=1, preempt_modes=frozenset({"REQUEUE"})),
    }
    window = Reservation(name="maint", start_epoch_s=2000.0, end_epoch_s=9000.0, nodes=("n2",))
    scheduling = Scheduling(preempt_type="preempt/partition_prio")
    watcher.site = SiteView(
        rules=SiteRules(partitions=partitions, reservations=(window,), scheduling=scheduling)
    )
    watcher.slurm.submit(gpus=2)
    (event,) = await watcher.poll()
    assert isinstance(event, JobQueued)
    assert event.job.priority_tier == 5
    assert event.job.preempts == ("partition:low",)
    assert event.job.excluded_nodes == ("n2",)


class CountingReader:
    """A JobReader that counts what it reads."""

    def __init__(self, reader: JobReader) -> None:
        self._reader, self.count, self.traits = reader, 0, reader.traits
        self.to_engine_s = reader.to_engine_s

    def read(self, *asked: Any) -> Any:
        self.count += 1
        return self._reader.read(*asked)


@pytest.fixture
def counted(watcher: Watcher) -> CountingReader:
    reader = CountingReader(watcher.reader)
    watcher.reader = reader  # type: ignore[assignment]
    return reader


async def test_a_job_that_stays_as_it_is_is_read_once(
    watcher: Watcher, counted: CountingReader
) -> None:
    snapshot_of = watcher.slurm.queue
    watcher.slurm.submit(gpus=2)
    snapshot = await snapshot_of()
    watcher.slurm.queue = lambda: _same(snapshot)  # type: ignore[method-assign]
    for _ in range(3):
        await watcher.poll()
    assert counted.count == 1


async def _same(snapshot: QueueSnapshot) -> QueueSnapshot:
    return snapshot


async def test_a_poll_makes_new_objects_only_for_a_changed_job(watcher: Watcher) -> None:
    runs, waits, changes = (watcher.slurm.submit(gpus=gpus)[0] for gpus in (1, 2, 2))
    await watcher.pin(runs, "n1", 0)
    snapshot = await watcher.slurm.queue()
    watcher.slurm.queue = lambda: _same(snapshot)  # type: ignore[method-assign]
    await watcher.poll()
    before = watcher.view
    jobs = [replace(job, qos="low") if job.number == int(changes) else job for job in snapshot.jobs]
    changed = replace(snapshot, jobs=tuple(jobs))
    watcher.slurm.queue = lambda: _same(changed)  # type: ignore[method-assign]
    await watcher.poll()
    now = watcher.view
    assert (list(now.running), list(now.waiting)) == ([runs], [waits, changes])
    assert all(now.lives[job_id] is before.lives[job_id] for job_id in (runs, waits, changes))
    assert now.reads[int(waits)] is before.reads[int(waits)]
    assert now.reads[int(changes)] is not before.reads[int(changes)]


async def test_an_aged_priority_changes_a_job_that_is_not_read_again(watcher: Watcher) -> None:
    (job_id,) = watcher.slurm.submit(gpus=2)
    snapshot = await watcher.slurm.queue()
    watcher.slurm.queue = lambda: _same(snapshot)  # type: ignore[method-assign]
    await watcher.poll()
    aged = replace(snapshot, jobs=tuple(replace(job, priority=77) for job in snapshot.jobs))
    watcher.slurm.queue = lambda: _same(aged)  # type: ignore[method-assign]
    (event,) = await watcher.poll()
    assert isinstance(event, JobChanged)
    assert event.job.priority == 77
    held = replace(snapshot, jobs=tuple(replace(job, priority=0) for job in snapshot.jobs))
    watcher.slurm.queue = lambda: _same(held)  # type: ignore[method-assign]
    await watcher.poll()
    assert job_id in watcher.view.blocked


async def test_of_a_job_left_to_slurm_that_is_held_both_are_said(watcher: Watcher) -> None:
    (job_id,) = watcher.slurm.submit(gpus=2)
    snapshot = await watcher.slurm.queue()
    (job,) = snapshot.jobs
    held = replace(snapshot, jobs=(replace(job, reservation="maint", priority=0),))
    watcher.slurm.queue = lambda: _same(held)  # type: ignore[method-assign]
    await watcher.poll()
    assert watcher.view.unmanaged[job_id] == "runs in reservation maint; it is held"


async def test_other_rules_are_applied_at_the_next_poll(watcher: Watcher) -> None:
    watcher.slurm.submit(gpus=2)
    snapshot = await watcher.slurm.queue()
    watcher.slurm.queue = lambda: _same(snapshot)  # type: ignore[method-assign]
    await watcher.poll()
    rules = SiteRules(partitions={"main": Partition(name="main", tier=5)})
    watcher.site = SiteView(rules=rules)
    (event,) = await watcher.poll()
    assert isinstance(event, JobChanged)
    assert event.job.priority_tier == 5


async def test_a_job_that_was_pinned_once_shows_slurms_newest_priority(watcher: Watcher) -> None:
    """22.05 keeps the pin in the admin comment while the job waits again."""
    watcher.slurm.submit(gpus=2)
    snapshot = await watcher.slurm.queue()
    (job,) = snapshot.jobs
    was = replace(job, admin_comment="roost:lease was=TresPerNode:gres:gpu:2", priority=5)
    for priority in (5, 77):
        seen = replace(snapshot, jobs=(replace(was, priority=priority),))
        watcher.slurm.queue = lambda seen=seen: _same(seen)  # type: ignore[method-assign, misc]
        (event,) = await watcher.poll()
        assert isinstance(event, JobQueued | JobChanged)
        assert event.job.priority == priority


# -- Arrays -------------------------------------------------------------------------------------


async def test_an_array_s_record_is_read_once_for_all_its_tasks(watcher: Watcher) -> None:
    (one,) = watcher.slurm.submit(gpus=2)
    snapshot = await watcher.slurm.queue()
    number = int(one)
    (job,) = snapshot.jobs
    record = replace(job, array_number=number, task_ids=tuple(range(50)))
    read_count = 0

    def count(_job: object) -> None:
        nonlocal read_count
        read_count += 1

    reader = replace(watcher.reader, why_left=count)
    jobs = replace(snapshot, jobs=(record,))
    found = view(jobs, reader, [NodeName("n1")], SlurmQueueView(), 1.0)
    assert read_count == 1
    assert [spec.job_id for spec in found.waiting.values()] == list(found.waiting)
    assert list(found.waiting) == [f"{number}_{task}" for task in range(50)]
    assert not found.numbers
