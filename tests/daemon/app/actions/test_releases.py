"""Jobs that are released to Slurm: without a pin of Roost's, also where Slurm did not answer."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from tests.daemon.app.applied_site import NOW_S, Site
from tests.daemon.app.parts import no_disk

from roost_engine.domain.actions import ReleaseToSlurm
from roost_engine.domain.events import JobChanged, JobWithdrawn
from roost_engine.domain.model import JobId
from roost_engine.testing.builders import node
from roost_slurm.text import squeue
from roostd.testing.slurm_faults import Fault
from roostd.testing.slurm_stand_in import SlurmStandIn


async def pinned_job(site: Site) -> JobId:
    """A job that waits by a pin: its GPUs are busy, of which the engine does not know."""
    site.fill("n1")
    site.fill("n2")
    job_id, place = site.submit()
    site.applier.submit(place, 0)
    await site.done()
    return job_id


async def test_a_job_that_is_released_starts_by_itself_and_its_lease_is_renewed_no_more() -> None:
    site = Site()
    job_id = site.wait_in_line()

    site.applier.submit(ReleaseToSlurm(job_id=job_id, reason="cannot run"), 0)
    await site.done()
    count = len(site.slurm.argvs)
    await site.applier.renew([job_id])

    assert site.slurm.state(job_id) is squeue.SlurmJobState.RUNNING
    assert len(site.slurm.argvs) == count


async def test_jobs_that_are_held_in_vain_are_released_once_and_again_after_a_new_lease() -> None:
    site = Site()
    site.fill("n1")
    site.fill("n2")
    first, second = (site.slurm.submit(gpus_per_node=1)[0] for _ in range(2))

    for held_in_vain in ([first], [first], [first, second], [second], [first, second]):
        site.applier.release_needless(held_in_vain)
        await site.done()

    released = [argv[2] for argv in site.slurm.argvs]
    assert released == [f"jobid={first}", f"jobid={second}", f"jobid={first}"]


async def test_a_pin_is_taken_back_before_a_job_is_released() -> None:
    site = Site()
    job_id = await pinned_job(site)
    site.applier.release_needless([job_id])
    await site.done()

    assert site.slurm.argvs[-2][-1] == "StartTime=now+60"  # unpinned
    assert site.slurm.admin_comment(job_id) == "roost:let-go"


async def test_nodes_that_an_earlier_daemon_pinned_are_freed_before_a_job_is_released() -> None:
    site = Site()
    job_id = site.wait_in_line()
    engine = site.parts.state.engine
    spec = replace(engine.record(job_id).spec, fixed_indices=tuple(range(8)))
    engine.step(JobChanged(at_s=100.0, job=spec))

    site.applier.submit(ReleaseToSlurm(job_id=job_id, reason="busy"), 0)
    await site.done()

    unpinned, released = site.slurm.argvs
    assert "ReqNodeList=" in unpinned
    assert released[-1] == "AdminComment=roost:let-go"


async def test_a_job_whose_pin_slurm_did_not_take_back_is_released_at_the_next_renewal() -> None:
    site = Site()
    job_id = await pinned_job(site)
    site.slurm.inject("unpin", Fault.LOST_BEFORE)
    site.applier.release_needless([job_id])
    site.parts.state.engine.step(JobWithdrawn(at_s=101.0, job_id=job_id, reason="is off"))
    await site.done()
    assert site.slurm.admin_comment(job_id) != "roost:let-go"

    for _ in range(2):
        site.applier.release_needless([job_id])
        await site.applier.renew([])
        await site.done()

    unpinned, released = site.slurm.argvs[-2:]
    assert {"TresPerNode=gres/gpu:2", "ReqNodeList="} <= set(unpinned)
    assert released[-1] == "AdminComment=roost:let-go"


async def test_a_job_that_a_fresh_engine_has_taken_up_is_not_released_later() -> None:
    site = Site()
    job_id = await pinned_job(site)
    site.slurm.inject("unpin", Fault.LOST_BEFORE)
    site.applier.submit(ReleaseToSlurm(job_id=job_id, reason="busy"), 0)
    await site.done()
    count = len(site.slurm.argvs)
    await site.applier.renew([])  # the engine has it as placed
    await site.done()
    assert len(site.slurm.argvs) == count


def forgotten_pin(site: Site) -> JobId:
    """A job that waits by a pin of which only Slurm knows: it ran there, and was requeued."""
    site.fill("n1")
    site.fill("n2")
    (job_id,) = site.slurm.submit(gpus_per_node=2)
    site.slurm.update(
        job_id,
        AdminComment="roost:lease was=TresPerNode:gres/gpu:2",
        TresPerNode="gres/gpu:g1:1,gres/gpu:g2:1",
        ReqNodeList="n1",
    )
    site.parts.state.pinned_in_slurm = frozenset((job_id,))
    return job_id


async def test_a_pin_that_only_slurm_knows_is_taken_back_before_a_job_is_released() -> None:
    site = Site()
    job_id = forgotten_pin(site)
    site.applier.release_needless([job_id])
    await site.done()

    unpinned, released = site.slurm.argvs
    assert {"TresPerNode=gres/gpu:2", "ReqNodeList="} <= set(unpinned)
    assert released[-1] == "AdminComment=roost:let-go"


async def test_a_held_job_with_a_pin_that_only_slurm_knows_is_released_once_it_waits_again() -> (
    None
):
    site = Site()
    job_id = forgotten_pin(site)
    site.slurm.hold(job_id)
    site.applier.release_needless([job_id])
    await site.done()
    assert site.slurm.argvs == []

    site.parts.state.pinned_in_slurm = frozenset()  # an older look: what was tried counts
    site.slurm.hold(job_id, release=True)
    await site.applier.renew([])
    await site.done()

    unpinned, released = site.slurm.argvs
    assert "ReqNodeList=" in unpinned
    assert released[-1] == "AdminComment=roost:let-go"


async def test_of_a_job_that_is_gone_no_pin_is_taken_back_again() -> None:
    site = Site()
    job_id = forgotten_pin(site)
    site.slurm.end(job_id)
    site.applier.release_needless([job_id])
    await site.done()
    site.parts.state.pinned_in_slurm = frozenset()

    await site.applier.renew([])

    assert site.applier.is_idle


async def test_opened_jobs_start_by_themselves_and_keep_their_stamp() -> None:
    site = Site()
    job_id = site.wait_in_line()
    site.applier.open_jobs([job_id])
    await site.done()
    assert site.slurm.argvs[-1][2:] == (f"jobid={job_id}", "StartTime=now")
    assert site.slurm.state(job_id) is squeue.SlurmJobState.RUNNING
    assert site.slurm.admin_comment(job_id).startswith("roost:lease")


async def test_jobs_that_are_closed_have_a_lease_again() -> None:
    site = Site()
    site.fill("n1")
    site.fill("n2")
    (job_id,) = site.slurm.submit(gpus_per_node=1)
    site.applier.open_jobs([job_id])
    await site.done()
    assert site.slurm.lease_left_s(job_id) <= 0.0
    site.applier.close_jobs([job_id])
    await site.done()
    assert site.slurm.lease_left_s(job_id) > 50.0


async def test_a_slurm_that_does_not_answer_leaves_opened_jobs_their_leases() -> None:
    site = Site()
    job_id = site.wait_in_line()
    site.slurm.inject("let_start", Fault.LOST_BEFORE)
    site.applier.open_jobs([job_id])
    await site.done()
    assert site.slurm.lease_left_s(job_id) > 0.0


async def test_no_renewal_leases_a_job_that_is_opened_meanwhile() -> None:
    site = Site()
    site.fill("n1")
    site.fill("n2")
    (job_id,) = site.slurm.submit(gpus_per_node=1)
    site.applier.open_jobs([job_id])
    await site.applier.renew([job_id])
    await site.applier.renew_first([job_id])
    await site.done()
    assert site.slurm.lease_left_s(job_id) <= 0.0

    site.applier.close_jobs([job_id])
    await site.applier.renew([job_id])
    assert site.slurm.lease_left_s(job_id) > 0.0


async def test_a_job_that_has_a_pin_is_neither_opened_nor_leased_when_it_is_closed() -> None:
    site = Site()
    job_id = await pinned_job(site)
    count = len(site.slurm.argvs)
    site.applier.open_jobs([job_id])
    site.applier.close_jobs([job_id])
    await site.done()
    assert len(site.slurm.argvs) == count


async def test_an_opened_job_is_forgotten_once_a_poll_lacks_it() -> None:
    site = Site()
    site.fill("n1")
    site.fill("n2")
    (job_id,) = site.slurm.submit(gpus_per_node=1)
    site.applier.open_jobs([job_id])
    await site.done()
    await site.applier.renew([job_id])
    assert site.applier._releases.has(job_id)
    await site.applier.renew([])
    assert not site.applier._releases.has(job_id)


class SlowReleases(SlurmStandIn):
    """Slurm that carries out a release only once it may."""

    def __init__(self) -> None:
        super().__init__([node("n1"), node("n2")], now=lambda: NOW_S)
        self.may_release, self.order = asyncio.Event(), list[str]()

    async def release(self, job_ids: Sequence[JobId]) -> None:
        await self.may_release.wait()
        self.order.append("release")
        await super().release(job_ids)

    async def renew(self, job_ids: Sequence[JobId], lease_s: int) -> None:
        self.order.append("renew")
        await super().renew(job_ids, lease_s)


async def test_a_renewal_waits_for_a_release_that_is_under_way() -> None:
    """It names all tasks of an array's record, so also one that is released just now."""
    site = Site()
    site.slurm = slurm = SlowReleases()
    site.use(slurm, no_disk())
    job_id = site.wait_in_line()
    (other,) = slurm.submit(gpus_per_node=8)
    site.applier.submit(ReleaseToSlurm(job_id=job_id, reason="cannot run"), 0)
    for _ in range(5):
        await asyncio.sleep(0)
    renewal = asyncio.create_task(site.applier.renew([other]))
    for _ in range(5):
        await asyncio.sleep(0)
    slurm.may_release.set()
    await renewal
    await site.done()
    assert slurm.order == ["release", "renew"]
