"""What roostd relies on, asked of the in-memory Slurm and of a real one alike."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.conftest import LocalSlurmFactory
from tests.daemon.slurm.slurm_clusters import (
    LEASE_S,
    PLAN,
    Cluster,
    RealCluster,
    StandInCluster,
    allocation,
    gpus,
    placement,
    started,
)

from roost_engine.domain.errors import SlurmRefused
from roost_engine.domain.model import JobId
from roost_slurm.testing.local_slurm import LocalSlurm
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.stamp import parse_stamp
from roost_slurm.text.versions import traits_of
from roostd.slurm.port import JobNotWaiting
from roostd.slurm.request import difference

FORMS = (
    "--gres=gpu:2",
    "--gpus=2",
    "--gpus-per-node=2",
    "--gpus-per-task=1 --ntasks=2",
    "--gpus-per-socket=2 --sockets-per-node=1",
    "--gpus=2 --ntasks-per-gpu=1",
)


@pytest.fixture(scope="module")
def real(request: pytest.FixtureRequest) -> LocalSlurm:
    factory: LocalSlurmFactory = request.getfixturevalue("local_slurm_factory")
    return factory(PLAN)


@pytest_asyncio.fixture(
    params=["stand-in", pytest.param("real", marks=pytest.mark.slurm)],
)
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    cluster: Cluster
    if request.param == "stand-in":
        cluster = StandInCluster()
    else:
        cluster = RealCluster(request.getfixturevalue("real"))
    yield cluster
    # Jobs of one test must not take another's GPUs.
    while jobs := (await cluster.port.queue()).jobs:
        for job in jobs:
            if job.is_pending or job.is_holding:
                cluster.end(JobId(str(job.array_number or job.number)))
        await asyncio.sleep(0.05)


async def record(cluster: Cluster, job_id: JobId) -> QueuedJob:
    jobs = (await cluster.port.queue()).jobs
    return next(job for job in jobs if job_id in job.job_ids)


async def can_untype(cluster: Cluster) -> bool:
    """Whether a job that was pinned may be pinned to other GPUs."""
    return traits_of(await cluster.port.version()).can_untype


@pytest.mark.parametrize("form", FORMS)
async def test_job_gets_exactly_the_gpus_it_was_pinned_to(cluster: Cluster, form: str) -> None:
    job_id = cluster.submit(form)
    chosen = placement("n3", 2, 5)
    await cluster.port.pin(job_id, chosen)
    shares = await started(cluster.port, job_id)
    assert difference(chosen, shares) is None
    assert shares[0].cpu_count >= 1


@pytest.mark.parametrize("form", ["--gres=gpu:2 --nodes=2", "--gpus=4 --nodes=2", "--gpus=4"])
async def test_multi_node_job_gets_the_same_gpus_on_each_node(cluster: Cluster, form: str) -> None:
    job_id = cluster.submit(form)
    chosen = placement("n2,n4", 1, 6)
    await cluster.port.pin(job_id, chosen)
    assert difference(chosen, await started(cluster.port, job_id)) is None


async def test_tasks_of_an_array_are_pinned_one_by_one(cluster: Cluster) -> None:
    array = cluster.submit("--array=0-3%2 --gres=gpu:1")
    await cluster.port.pin(JobId(f"{array}_2"), placement("n1", 7))
    assert gpus(await started(cluster.port, JobId(f"{array}_2"))) == {"n1": (7,)}
    snapshot = await cluster.port.queue()
    pending = [job_id for job in snapshot.jobs if job.is_pending for job_id in job.job_ids]
    assert sorted(pending) == [f"{array}_{task}" for task in (0, 1, 3)]
    assert {snapshot.details[job.number].task_limit for job in snapshot.jobs} == {2}


async def test_node_lists_of_the_user_are_told(cluster: Cluster) -> None:
    job_id = cluster.submit("--gres=gpu:1 --nodelist=n1 --exclude=n2,n3")
    snapshot = await cluster.port.queue()
    job = next(job for job in snapshot.jobs if job_id in job.job_ids)
    assert job.required_nodes == "n1"
    assert snapshot.details[job.number].excluded_nodes in ("n2,n3", "n[2-3]")


async def test_lease_is_renewed_but_never_before_the_users_begin(cluster: Cluster) -> None:
    plain = cluster.submit("--gres=gpu:1")
    later = cluster.submit("--gres=gpu:1 --begin=now+5000")
    begin_s = (await record(cluster, later)).start_epoch_s
    await cluster.port.renew([plain, later], 1000)
    plain_s = (await record(cluster, plain)).start_epoch_s
    assert plain_s is not None
    assert plain_s - time.time() == pytest.approx(1000, abs=20)
    assert (await record(cluster, later)).start_epoch_s == begin_s
    stamp = parse_stamp((await record(cluster, later)).admin_comment)
    assert stamp is not None
    assert stamp.begin_epoch_s == pytest.approx(time.time() + 5000, abs=20)


async def test_a_hundred_leases_are_renewed_at_once_though_some_jobs_are_gone(
    cluster: Cluster,
) -> None:
    array = cluster.submit("--array=0-98 --gres=gpu:1")
    single = cluster.submit("--gres=gpu:1")
    job_ids = [JobId(f"{array}_{task}") for task in range(99)]
    await cluster.port.renew([*job_ids, JobId("98765"), single], 2000)
    starts = [(await record(cluster, job_id)).start_epoch_s for job_id in (job_ids[0], single)]
    assert all(start is not None and start - time.time() > 1900 for start in starts)


async def test_pin_on_busy_gpus_is_taken_back_and_the_job_placed_elsewhere(
    cluster: Cluster,
) -> None:
    first, second = cluster.submit("--gres=gpu:2"), cluster.submit("--gpus=2")
    await cluster.port.pin(first, placement("n1", 0, 1))
    await started(cluster.port, first)
    await cluster.port.pin(second, placement("n1", 1, 2))
    assert await allocation(cluster.port, second) == ()
    await cluster.port.unpin(second, LEASE_S)
    job = await record(cluster, second)
    assert job.start_epoch_s is not None
    assert job.start_epoch_s - time.time() > LEASE_S - 20
    assert job.required_nodes == ""
    indices = (3, 4) if await can_untype(cluster) else (1, 2)
    await cluster.port.pin(second, placement("n4", *indices))
    assert gpus(await started(cluster.port, second)) == {"n4": indices}


async def test_a_release_that_keeps_types_is_asked_for_no_other_gpus(cluster: Cluster) -> None:
    if await can_untype(cluster):
        pytest.skip("this release takes types back")
    first, second = cluster.submit("--gres=gpu:2"), cluster.submit("--gres=gpu:2")
    await cluster.port.pin(first, placement("n1", 0, 1))
    await started(cluster.port, first)
    await cluster.port.pin(second, placement("n1", 0, 1))
    with pytest.raises(SlurmRefused, match="was pinned to GPUs 0,1, and this Slurm gives it no"):
        await cluster.port.pin(second, placement("n1", 2, 3))
    for node in ("n1", "n1", "n2"):  # any number of times, to the same GPUs
        await cluster.port.unpin(second, LEASE_S)
        await cluster.port.pin(second, placement(node, 0, 1))
    assert gpus(await started(cluster.port, second)) == {"n2": (0, 1)}


async def test_refused_pin_leaves_the_job_as_it_was(cluster: Cluster) -> None:
    job_id = cluster.submit("--gres=gpu:2")
    before = await record(cluster, job_id)
    with pytest.raises(SlurmRefused):
        await cluster.port.pin(job_id, placement("nowhere", 0, 1))
    assert (await record(cluster, job_id)).tres == before.tres
    assert (await record(cluster, job_id)).start_epoch_s == before.start_epoch_s


async def test_pinned_job_remembers_what_it_asked_for(cluster: Cluster) -> None:
    job_id = cluster.submit("--gpus=2")
    asked = (await record(cluster, job_id)).tres
    await cluster.port.pin(job_id, placement("n2", 4, 5))
    stamp = parse_stamp((await record(cluster, job_id)).admin_comment)
    assert stamp is not None
    assert set(asked) <= set(stamp.was)


async def test_running_and_unknown_jobs_cannot_be_pinned(cluster: Cluster) -> None:
    job_id = cluster.submit("--gres=gpu:1")
    await cluster.port.pin(job_id, placement("n1", 0))
    await started(cluster.port, job_id)
    with pytest.raises(JobNotWaiting, match="running"):
        await cluster.port.pin(job_id, placement("n1", 1))
    with pytest.raises(JobNotWaiting, match="gone"):
        await cluster.port.pin(JobId("98765"), placement("n1", 1))
    assert await allocation(cluster.port, JobId("98765")) == ()


async def test_job_that_was_let_go_starts_by_itself_and_has_no_lease(cluster: Cluster) -> None:
    job_id = cluster.submit("--gres=gpu:3")
    await cluster.port.release([job_id])
    shares = await started(cluster.port, job_id)
    assert [len(share.gpu_indices) for share in shares] == [3]
    assert parse_stamp((await record(cluster, job_id)).admin_comment) is None


async def test_job_that_is_let_go_keeps_the_begin_that_its_user_asked_for(cluster: Cluster) -> None:
    begin_s = time.time() + 2 * LEASE_S
    later = cluster.submit(f"--gres=gpu:1 --begin=now+{2 * LEASE_S}")
    now = cluster.submit("--gres=gpu:1")
    await cluster.port.release([later, now])
    assert await started(cluster.port, now)
    seen = await record(cluster, later)
    assert seen.is_pending
    assert seen.start_epoch_s == pytest.approx(begin_s, abs=3)
    assert parse_stamp(seen.admin_comment) is None


async def test_a_requeued_job_waits_again_under_a_lease_and_may_be_pinned_elsewhere(
    cluster: Cluster,
) -> None:
    job_id = cluster.submit("--gres=gpu:2")
    await cluster.port.pin(job_id, placement("n2", 4, 5))
    await started(cluster.port, job_id)
    await cluster.port.requeue(job_id)
    while not (job := await record(cluster, job_id)).is_pending:  # noqa: ASYNC110  Slurm only shows
        await asyncio.sleep(0.05)
    assert (job.restart_count, job.priority > 0) == (1, True)
    assert job.start_epoch_s is not None
    assert 60 < job.start_epoch_s - time.time() < 130, "it starts by itself: nothing holds it"
    await cluster.port.unpin(job_id, 1000)
    job = await record(cluster, job_id)
    assert job.required_nodes == ""
    assert job.start_epoch_s is not None
    assert job.start_epoch_s - time.time() == pytest.approx(1000, abs=20)
    await asyncio.sleep(traits_of(await cluster.port.version()).requeue_pause_s)
    indices = (0, 7) if await can_untype(cluster) else (4, 5)
    await cluster.port.pin(job_id, placement("n1", *indices))
    assert gpus(await started(cluster.port, job_id)) == {"n1": indices}


async def test_only_running_jobs_with_a_stamp_are_requeued(cluster: Cluster) -> None:
    waiting, plain = cluster.submit("--gres=gpu:1"), cluster.submit("--gres=gpu:1")
    with pytest.raises(SlurmRefused, match="is pending, not running"):
        await cluster.port.requeue(waiting)
    with pytest.raises(SlurmRefused, match="is gone, not running"):
        await cluster.port.requeue(JobId("98765"))
    await cluster.port.release([plain])
    await started(cluster.port, plain)
    with pytest.raises(SlurmRefused, match="was not placed by Roost"):
        await cluster.port.requeue(plain)


async def test_what_jobs_wait_for_stands_beside_their_leases_in_one_call_for_all(
    cluster: Cluster,
) -> None:
    single, array = cluster.submit("--gres=gpu:1"), cluster.submit("--array=0-2 --gres=gpu:1")
    later = cluster.submit("--gres=gpu:1 --begin=now+5000")
    task = JobId(f"{array}_1")
    said = "waits for 1 GPU on one node, until 14:32"
    await cluster.port.announce(dict.fromkeys([single, task, later, JobId("98765")], said))
    assert (await record(cluster, single)).admin_comment == f"roost:lease roost:advice {said}"
    assert (await record(cluster, task)).admin_comment == f"roost:lease roost:advice {said}"
    stamp = parse_stamp((await record(cluster, later)).admin_comment)
    assert stamp is not None
    assert stamp.begin_epoch_s == pytest.approx(time.time() + 5000, abs=20)
    await cluster.port.pin(single, placement("n1", 3))
    await started(cluster.port, single)
    assert "advice" not in (await record(cluster, single)).admin_comment


async def test_advice_stands_beside_the_lease(cluster: Cluster) -> None:
    job_id = cluster.submit("--gres=gpu:1")
    await cluster.port.advise(job_id, "nodes=n1 gpus=2")
    await cluster.port.advise(job_id, "nodes=n1 gpus=3")
    comment = (await record(cluster, job_id)).admin_comment
    assert comment == "roost:lease roost:advice nodes=n1 gpus=3"


async def test_a_forecast_stands_beside_the_lease_and_advice(cluster: Cluster) -> None:
    job_id = cluster.submit("--gres=gpu:1")
    await cluster.port.foretell(job_id, "start 14:20")
    await cluster.port.advise(job_id, "nodes=n1 gpus=2")
    await cluster.port.foretell(job_id, "start 15:00, end later")
    comment = (await record(cluster, job_id)).admin_comment
    assert comment == "roost:lease roost:eta[start 15:00, end later] roost:advice nodes=n1 gpus=2"
    await cluster.port.pin(job_id, placement("n1", 3))
    await started(cluster.port, job_id)
    assert "eta" not in (await record(cluster, job_id)).admin_comment
    with pytest.raises(JobNotWaiting):
        await cluster.port.foretell(job_id, "start 15:00")


async def test_nodes_are_told_with_their_gpus(cluster: Cluster) -> None:
    nodes = {node.spec.name: node for node in await cluster.port.nodes()}
    assert sorted(nodes) == ["n1", "n2", "n3", "n4"]
    assert {node.spec.gpu_count for node in nodes.values()} == {8}
    assert all(node.spec.usable and node.spec.partitions == ("main",) for node in nodes.values())


async def test_questions_asked_together_share_one_dump(cluster: Cluster) -> None:
    cluster.submit("--gres=gpu:1")
    snapshots = await asyncio.gather(*(cluster.port.queue() for _ in range(20)))
    assert len({snapshot.jobs for snapshot in snapshots}) == 1
