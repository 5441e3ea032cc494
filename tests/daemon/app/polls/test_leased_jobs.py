"""Leases: which are renewed, and which are released because they are held in vain."""

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from tests.daemon.app.parts import Parts
from tests.daemon.app.watched_site import Site

from roost_engine.domain.model import JobId
from roost_engine.testing.builders import node
from roost_slurm.text.versions import SlurmVersion
from roostd.app.polls.leased_jobs import LeasedJobs
from roostd.app.polls.slurm_watch import SlurmWatch
from roostd.config.config import Config
from roostd.ops.metrics import Metrics
from roostd.slurm.queue_reading import OPENED
from roostd.slurm.queue_view import SlurmQueueView
from roostd.testing.slurm_stand_in import SlurmStandIn


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_leases_of_waiting_and_held_jobs_are_to_be_renewed_and_of_running_ones_not(
    site: Site,
) -> None:
    waiting, held, running = (site.slurm.submit(gpus_per_node=1)[0] for _ in range(3))
    site.slurm.hold(held)
    site.slurm.update(running, StartTime="now")
    site.slurm.submit(tasks=1)  # no GPUs, no lease
    await site.look()
    assert site.watch.leased() == (waiting, held)
    assert site.released == [[]]


async def test_a_lease_of_a_job_that_roost_cannot_place_is_in_vain(site: Site) -> None:
    (job_id,) = site.slurm.submit(gpus=3, nodes=(2, 2))  # do not divide between two nodes
    await site.look()
    assert site.watch.leased() == ()
    assert site.released == [[job_id]]


async def test_leases_of_a_partition_that_this_daemon_never_enforced_are_left_alone(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path, mode="shadow")
    site.slurm.submit(gpus_per_node=1)
    await site.look()
    assert (site.watch.leased(), site.released) == ((), [[]])


async def test_leases_of_a_partition_end_when_it_is_enforced_no_more(site: Site) -> None:
    (job_id,) = site.slurm.submit(gpus_per_node=1)
    await site.look()
    assert site.released[-1] == []

    site.state.config = Config.model_validate({"mode": "shadow"})
    list(site.watch.cluster_events())

    assert site.watch.leased() == ()
    assert site.released[-1] == [job_id]


async def test_a_job_that_was_moved_to_a_partition_that_is_not_enforced_waits_no_longer(
    tmp_path: Path,
) -> None:
    partitions = {"main": {"mode": "enforce"}, "debug": {"mode": "off"}}
    site = Site(tmp_path, mode="off", partitions=partitions)
    (moved,) = site.slurm.submit(gpus_per_node=1)
    site.slurm.submit(gpus_per_node=1, partition="debug")  # under a lease of an earlier roostd
    await site.look()
    assert site.released == [[]]
    site.slurm._jobs[moved].partition = "debug"  # by its user
    await site.look()
    assert site.released[-1] == [moved]


@pytest.mark.parametrize(
    ("version", "found"),
    [
        pytest.param(SlurmVersion(24, 11, 5), [(["1"], ["1", "2"])], id="24.11"),
        pytest.param(SlurmVersion(22, 5, 8), [], id="22.05"),
    ],
)
async def test_what_an_earlier_daemon_left_is_found_once_before_any_release(
    tmp_path: Path, version: SlurmVersion, found: list[tuple[list[str], list[str]]]
) -> None:
    slurm = SlurmStandIn([node("n1")], now=lambda: 1_000.0, version=version, lease_s=None)
    slurm.submit(gpus_per_node=8)
    slurm.lease_s = 60
    ids = [slurm.submit(gpus_per_node=2)[0] for _ in range(3)]
    for job_id in ids[:2]:
        slurm.update(job_id, StartTime="now")
    slurm.update(
        ids[0],
        AdminComment="roost:lease was=TresPerNode:gres/gpu:2",
        TresPerNode="gres/gpu:g1:1,gres/gpu:g2:1",
        ReqNodeList="n1",
    )
    calls: list[object] = []

    def adopt(pinned: Iterable[JobId], eligible: Iterable[JobId]) -> None:
        calls.append(([*pinned], [*eligible]))

    parts = Parts(mode="shadow")
    watch = SlurmWatch(
        slurm,
        parts.state,
        Metrics(CollectorRegistry()),
        parts.emitted.append,
        lambda job_ids: calls.append(list(job_ids)),
        tmp_path,
        adopt,
    )
    await watch.first_poll()
    await watch.first_poll()
    names = {ids[0]: "1", ids[1]: "2"}
    adopted = [
        tuple([names[job_id] for job_id in part] for part in call)
        for call in calls
        if isinstance(call, tuple)
    ]
    assert adopted == found
    # Not enforced here: only the pinned job, which would wait for two GPUs alone, is released.
    released = [call for call in calls if isinstance(call, list)]
    assert released == [ids[:1] if found else []] * 2
    assert not found or isinstance(calls[0], tuple)


async def cpu_of_a_look_s(folder: Path, job_count: int) -> float:
    """CPU time of sorting the leases of requeued jobs."""
    site = Site(folder)
    for _ in range(job_count):
        site.slurm.submit(gpus_per_node=16)
    await site.look()
    snapshot = site.watch._snapshot
    jobs = tuple(replace(job, restart_count=1) for job in snapshot.jobs)
    snapshot = replace(snapshot, jobs=jobs)
    took_s = []
    for _ in range(5):
        began_s = time.thread_time()
        site.watch._leased.note(*site.watch._leased.sort(snapshot, site.watch._view))
        took_s.append(time.thread_time() - began_s)
    return min(took_s)


async def test_sorting_leases_costs_no_more_than_the_number_of_requeued_jobs(
    tmp_path: Path,
) -> None:
    few_s = await cpu_of_a_look_s(tmp_path, 100)
    assert await cpu_of_a_look_s(tmp_path, 800) < 8 * 3 * few_s


async def test_pins_are_known_by_their_stamps_in_slurm_also_of_held_jobs(site: Site) -> None:
    pinned, held, plain = (site.slurm.submit(gpus_per_node=2)[0] for _ in range(3))
    for job_id in (pinned, held):
        site.slurm.update(
            job_id,
            AdminComment="roost:lease was=TresPerNode:gres/gpu:2",
            TresPerNode="gres/gpu:g1:1,gres/gpu:g2:1",
            ReqNodeList="n1",
        )
    site.slurm.hold(held)
    await site.look()
    assert site.state.pinned_in_slurm == {pinned, held}
    assert plain not in site.state.pinned_in_slurm

    site.slurm.update(pinned, TresPerNode="gres/gpu:2", ReqNodeList="")
    await site.look()
    assert site.state.pinned_in_slurm == {held}


async def test_a_job_that_is_opened_is_neither_leased_nor_released(site: Site) -> None:
    """Released, it would lose its stamp, and could not be leased again."""
    (opened,) = site.slurm.submit(gpus_per_node=1)
    (other,) = site.slurm.submit(gpus_per_node=1)
    snapshot = await site.slurm.queue()
    leased_jobs = LeasedJobs(site.state, lambda job_ids: None, lambda pinned, eligible: None)
    leased, needless, _ = leased_jobs.sort(snapshot, SlurmQueueView(unmanaged={opened: OPENED}))
    assert (leased, needless) == ([other], [])
