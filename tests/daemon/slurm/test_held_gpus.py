"""Views of the queue: what running jobs, shared GPUs and reservations hold."""

from dataclasses import replace

import pytest
from tests.daemon.slurm.watcher import NODES, Watcher

from roost_engine.domain.events import JobStarted
from roost_engine.domain.model import NodeName, NodeShare
from roost_slurm.text.partitions import Partition
from roost_slurm.text.reservations import Reservation
from roost_slurm.text.scheduling import Scheduling
from roost_slurm.text.squeue import SlurmJobState
from roostd.slurm.port import QueueSnapshot
from roostd.slurm.queue_view import SiteView
from roostd.slurm.rules.site_rules import SiteRules


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


async def _same(snapshot: QueueSnapshot) -> QueueSnapshot:
    return snapshot


async def test_a_started_job_carries_its_end_and_its_class(watcher: Watcher) -> None:
    low = Partition(name="main", tier=1, preempt_modes=frozenset({"REQUEUE"}))
    scheduling = Scheduling(preempt_type="preempt/partition_prio", preempt_exempt_s=300.0)
    watcher.site = SiteView(rules=SiteRules(partitions={"main": low}, scheduling=scheduling))
    (job_id,) = watcher.slurm.submit(gpus=2)
    await watcher.poll()
    await watcher.pin(job_id, "n2", 3, 4)
    (event,) = await watcher.poll()
    assert isinstance(event, JobStarted)
    assert event.preempt_class == "partition:main"
    assert event.spared_until_s == pytest.approx(event.at_s + 300.0, abs=1.0)


# -- GPUs in parts -----------------------------------------------------------------------------


async def test_a_gpu_with_shards_of_a_running_job_is_held_by_one_job(watcher: Watcher) -> None:
    (job_id,) = watcher.slurm.submit(gpus=1)
    await watcher.pin(job_id, "n1", 3)
    snapshot = await watcher.slurm.queue()
    (job,) = snapshot.jobs
    (held,) = snapshot.details[job.number].allocated
    parts = replace(held, gpu_indices=(), shared_indices=held.gpu_indices)
    details = {job.number: replace(snapshot.details[job.number], allocated=(parts,))}
    seen = replace(snapshot, jobs=(replace(job, time_limit_s=60.0),), details=details)
    watcher.slurm.queue = lambda: _same(seen)  # type: ignore[method-assign]
    own, event = await watcher.poll()
    assert isinstance(own, JobStarted)
    assert isinstance(event, JobStarted)
    assert [(share.node, share.gpu_indices) for share in own.shares] == [("n1", ())]
    assert event.job_id == "shards n1:3"
    assert event.shares == (NodeShare(NodeName("n1"), (3,)),)
    assert event.end_s is not None
    assert await watcher.poll() == ()
    longer = replace(seen, jobs=(replace(job, time_limit_s=90.0),))
    watcher.slurm.queue = lambda: _same(longer)  # type: ignore[method-assign]
    (again,) = await watcher.poll()
    assert again == replace(event, at_s=again.at_s, end_s=event.end_s + 30.0)
    assert await watcher.poll() == ()
    ended = replace(seen, jobs=())
    watcher.slurm.queue = lambda: _same(ended)  # type: ignore[method-assign]
    assert ("JobEnded", "shards n1:3") in await watcher.kinds()


# -- reservations of GPUs ----------------------------------------------------------------------

RESERVED = Reservation(
    name="r",
    start_epoch_s=2000.0,
    end_epoch_s=9000.0,
    nodes=("n1",),
    cores={"n1": 4},
    cpu_count=4,
    gpu_count=2,
)


def site_with(*reservations: Reservation) -> SiteView:
    return SiteView(
        rules=SiteRules(reservations=reservations, nodes={one.name: one for one in NODES})
    )


async def test_gpus_of_a_reservation_are_held_in_its_window(watcher: Watcher) -> None:
    watcher.site = site_with(RESERVED)
    assert await watcher.poll() == ()
    watcher.now_s = 2000.0
    (event,) = await watcher.poll()
    assert isinstance(event, JobStarted)
    assert (event.job_id, event.end_s) == ("reservation r", 9000.0)
    assert event.shares == (NodeShare(NodeName("n1"), (0, 1)),)
    assert await watcher.poll() == ()
    watcher.now_s = 9000.0
    assert await watcher.kinds() == [("JobEnded", "reservation r")]


async def test_they_are_held_before_it_while_a_waiting_job_would_run_into_it(
    watcher: Watcher,
) -> None:
    watcher.site = site_with(RESERVED)
    watcher.slurm.submit(gpus=2)
    snapshot = await watcher.slurm.queue()
    for limit_s, kinds in (
        (600.0, ["JobQueued"]),
        (7200.0, ["JobStarted", "JobChanged"]),
        (601.0, ["JobEnded", "JobChanged"]),
    ):
        jobs = tuple(replace(job, time_limit_s=limit_s) for job in snapshot.jobs)
        seen = replace(snapshot, jobs=jobs)
        watcher.slurm.queue = lambda seen=seen: _same(seen)  # type: ignore[method-assign, misc]
        assert [kind for kind, _ in await watcher.kinds()] == kinds


async def test_a_suspended_job_keeps_its_gpus_and_no_cpus(watcher: Watcher) -> None:
    (held,) = watcher.slurm.submit(gpus=1, cpus_per_task=8)
    await watcher.pin(held, "n1", 0)
    await watcher.poll()
    assert watcher.view.running[held][0].cpu_count == 8
    snapshot = await watcher.slurm.queue()
    (job,) = snapshot.jobs
    seen = replace(snapshot, jobs=(replace(job, state=SlurmJobState.SUSPENDED),))
    watcher.slurm.queue = lambda: _same(seen)  # type: ignore[method-assign]
    (event,) = await watcher.poll()
    assert isinstance(event, JobStarted)
    assert [(one.node, one.gpu_indices, one.cpu_count) for one in event.shares] == [("n1", (0,), 0)]
