"""Actions of the engine as Slurm gets them: in order, once on disk, and not when outdated."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.app.applied_site import NODES, NOW_S, Site
from tests.daemon.app.parts import HEAD, no_disk

from roost_engine.domain.actions import (
    Action,
    Place,
    PolicyFailed,
    Preempt,
    ReleaseToSlurm,
    Unpin,
    Wait,
    WakeAt,
)
from roost_engine.domain.events import (
    Event,
    JobChanged,
    JobEnded,
    JobQueued,
    JobStarted,
    JobWithdrawn,
    NodeSeen,
    PlacementRefused,
    PreemptionRefused,
    Tick,
)
from roost_engine.domain.model import JobId, NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import JobState
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import job, node, share
from roost_formats.journal.journal import Journal
from roost_slurm.text import commands, squeue
from roostd.app.decision.recorder import Recorder
from roostd.slurm import lease_plan
from roostd.testing.slurm_faults import Fault
from roostd.testing.slurm_stand_in import SlurmStandIn


async def test_a_placed_job_starts_on_its_gpus() -> None:
    site = Site()
    job_id, place = site.submit()

    site.applier.submit(place, 0)
    assert not site.applier.is_idle
    await site.done()

    assert await site.gpus(job_id) == dict(place.placement.by_node())
    assert site.count("pins", outcome="pinned") == 1
    assert site.look_count == 1
    assert site.parts.emitted == []


async def test_slurm_chooses_the_gpus_where_any_may_be_reserved() -> None:
    site = Site()
    job_id, place = site.submit()
    site.parts.state.unsure_nodes = frozenset(place.placement.nodes)

    site.applier.submit(place, 0)
    await site.done()

    (argv,) = site.slurm.argvs
    assert f"ReqNodeList={place.placement.nodes[0]}" in argv
    assert not [word for word in argv if word.startswith("Tres")]
    assert site.slurm.state(job_id) is squeue.SlurmJobState.RUNNING


async def test_nothing_is_asked_of_slurm_before_the_journal_has_it(tmp_path: Path) -> None:
    recorder = Recorder(Journal.open(tmp_path))
    recorder.begin_run(HEAD)
    site = Site(recorder)
    job_id, place = site.submit()

    site.applier.submit(place, recorder.append(Tick(at_s=100.0), ()))
    for _ in range(100):
        await asyncio.sleep(0)
    assert site.slurm.argvs == []

    writer = asyncio.create_task(recorder.run())
    await site.done()
    assert site.slurm.state(job_id) is squeue.SlurmJobState.RUNNING
    recorder.close()
    await writer


async def test_a_placement_that_the_engine_has_dropped_is_not_carried_out() -> None:
    site = Site()
    job_id, place = site.submit()
    engine = site.parts.state.engine
    engine.step(PlacementRefused(at_s=100.0, job_id=job_id, reason="node busy"))

    site.applier.submit(place, 0)
    await site.done()

    assert site.slurm.argvs == []


@pytest.mark.parametrize(("is_gone", "outcome"), [(True, "gone"), (False, "refused")])
async def test_a_placement_that_slurm_does_not_take_is_told_to_the_engine(
    is_gone: bool, outcome: str
) -> None:
    site = Site()
    job_id, place = site.submit()
    if is_gone:
        site.slurm.end(job_id)
    else:
        site.slurm.inject("pin", Fault.REFUSED)

    site.applier.submit(place, 0)
    await site.done()

    (event,) = site.parts.emitted
    assert isinstance(event, PlacementRefused)
    assert (event.at_s, event.job_id) == (100.0, job_id)
    assert site.count("pins", outcome=outcome) == 1


@pytest.mark.parametrize(
    ("mode", "comment"),
    [("advise", "roost:lease roost:advice nodes=n1 gpus=0,1"), ("shadow", "roost:lease")],
)
async def test_a_job_that_roost_does_not_bind_gets_advice_or_nothing(
    mode: str, comment: str
) -> None:
    site = Site(mode=mode)
    job_id, place = site.submit(binding=False)

    site.applier.submit(place, 0)
    site.applier.submit(ReleaseToSlurm(job_id=job_id, reason=""), 0)
    await site.done()

    assert site.slurm.admin_comment(job_id) == comment
    assert site.slurm.state(job_id) is squeue.SlurmJobState.PENDING


async def test_a_pinned_job_that_slurm_did_not_start_is_held_again_when_it_is_to_wait() -> None:
    site = Site()
    site.fill("n1")
    job_id, place = site.submit()
    assert place.placement.nodes == ("n1",)
    site.applier.submit(place, 0)
    await site.done()
    assert site.slurm.lease_left_s(job_id) == 0

    for _ in range(2):
        site.applier.submit(Wait(job_id=job_id, reason="busy", until_s=None), 0)
        await site.done()

    assert site.slurm.lease_left_s(job_id) == 60
    assert sum("ReqNodeList=" in argv for argv in site.slurm.argvs) == 1  # held again once


async def test_leases_of_jobs_that_wait_are_renewed_in_one_call_and_those_in_placing_are_not() -> (
    None
):
    site = Site()
    placing, _ = site.submit()
    waiting = site.wait_in_line()
    (held,) = site.slurm.submit(gpus_per_node=1)  # the engine need not know it

    await site.applier.renew([placing, waiting, held])

    assert [argv[2] for argv in site.slurm.argvs] == [f"jobid={waiting},{held}"]
    assert site.count("lease_renewals") == 2
    await site.applier.renew([placing])
    assert len(site.slurm.argvs) == 1


async def test_a_job_of_a_crowd_whose_pin_was_taken_back_is_renewed_in_the_next_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease_plan, "HEAD_COUNT", 1)
    site = Site()
    site.fill("n1")
    _, place = site.submit()
    first, second, third = (site.wait_in_line() for _ in range(3))
    await site.applier.renew([first, second, third])
    assert site.slurm.lease_left_s(third) == 120
    await site.applier._ask_for(third, place.placement, "pinned")
    site.applier.submit(Wait(job_id=third, reason="busy", until_s=None), 0)
    await site.done()
    assert site.slurm.lease_left_s(third) == 60
    await site.applier.renew([first, second, third])
    assert site.slurm.argvs[-2:] == [commands.renew([third], 120), commands.renew([first], 60)]


def run_job(site: Site) -> JobId:
    """A job that runs in Slurm and in the engine."""
    job_id, _ = site.submit()
    site.slurm.update(job_id, StartTime="now")
    shares = (share("n1", 0, 1),)
    site.parts.state.engine.step(JobStarted(at_s=101.0, job_id=job_id, shares=shares))
    assert site.slurm.state(job_id) is squeue.SlurmJobState.RUNNING
    return job_id


async def test_a_job_is_stopped_only_while_the_engine_still_wants_it() -> None:
    site = Site()
    job_id = run_job(site)
    preempt = Preempt(job_id=job_id, reason="makes room")

    site.applier.submit(preempt, 0)
    await site.done()
    assert site.slurm.state(job_id) is squeue.SlurmJobState.RUNNING

    site.parts.state.engine.record(job_id).state = JobState.STOPPING
    site.applier.submit(preempt, 0)
    await site.done()
    assert site.slurm.state(job_id) is squeue.SlurmJobState.PENDING
    assert site.count("preemptions", outcome="stopped") == 1


async def test_a_stop_that_slurm_refuses_is_told_to_the_engine() -> None:
    site = Site()
    job_id = run_job(site)
    site.parts.state.engine.record(job_id).state = JobState.STOPPING
    site.slurm.inject("requeue", Fault.REFUSED)

    site.applier.submit(Preempt(job_id=job_id, reason="makes room"), 0)
    await site.done()

    (event,) = site.parts.emitted
    assert isinstance(event, PreemptionRefused)
    assert "injected refusal" in event.reason
    assert site.count("preemptions", outcome="refused") == 1


async def test_a_job_that_waits_again_asks_for_what_its_user_asked_for_under_a_lease() -> None:
    site = Site()
    job_id, place = site.submit()
    site.applier.submit(place, 0)
    await site.done()
    site.slurm.stop(job_id)
    assert site.slurm.lease_left_s(job_id) == 121

    site.applier.requeued(job_id)
    await site.done()

    assert site.slurm.lease_left_s(job_id) == 60
    assert "ReqNodeList=" in site.slurm.argvs[-1]
    assert "TresPerNode=gres/gpu:2" in site.slurm.argvs[-1]


async def test_a_request_that_slurm_did_not_restore_is_restored_at_a_renewal() -> None:
    site = Site()
    job_id, place = site.submit()
    site.applier.submit(place, 0)
    await site.done()
    site.applier.forget(job_id)  # it has started
    site.slurm.stop(job_id)
    site.parts.state.engine.step(JobQueued(at_s=101.0, job=job(job_id, gpus=8, nodes=3)))
    site.slurm.inject("unpin", Fault.LOST_BEFORE)
    site.applier.requeued(job_id)
    await site.done()
    await site.applier.renew([job_id])
    await site.done()
    assert {"TresPerNode=gres/gpu:2", "ReqNodeList="} <= set(site.slurm.argvs[-1])


class FaultyPort(SlurmStandIn):
    """Fails in a way that no port should."""

    broken: JobId | None = None

    async def pin(self, job_id: JobId, placement: Any, **options: Any) -> None:
        """See SlurmPort."""
        if job_id == self.broken:
            raise ZeroDivisionError
        await super().pin(job_id, placement)


async def test_a_defect_that_one_job_meets_does_not_stop_the_others() -> None:
    site = Site()
    site.slurm = FaultyPort([node("n1"), node("n2")], now=lambda: NOW_S)
    site.use(site.slurm, no_disk())
    (broken, first), (sound, second) = site.submit(), site.submit()
    site.slurm.broken = broken

    site.applier.submit(first, 0)
    site.applier.submit(second, 0)
    await site.done()

    assert site.slurm.state(sound) is squeue.SlurmJobState.RUNNING
    assert site.count("slurm_failures", operation="unexpected") == 1


async def test_a_draining_applier_finishes_what_it_has_and_takes_nothing_new() -> None:
    site = Site()
    (job_id, first), (other, second) = site.submit(), site.submit()
    site.applier.submit(first, 0)

    await site.applier.drain(10.0)
    site.applier.submit(second, 0)
    site.applier.release_needless([other])

    assert site.slurm.state(job_id) is squeue.SlurmJobState.RUNNING
    assert site.applier.is_idle
    assert site.slurm.state(other) is squeue.SlurmJobState.PENDING


async def test_draining_gives_up_on_what_hangs() -> None:
    class HangingPort(SlurmStandIn):
        async def pin(self, job_id: JobId, placement: Any, **options: Any) -> None:
            await asyncio.Event().wait()

    site = Site()
    site.slurm = HangingPort([node("n1"), node("n2")], now=lambda: NOW_S)
    site.use(site.slurm, no_disk())
    _, place = site.submit()
    site.applier.submit(place, 0)
    async with asyncio.timeout(60):
        await site.applier.drain(0.01)
    assert site.applier.is_idle


# -- standing pins -----------------------------------------------------------------------------


class BusySite(Site):
    """A site on which node n1 is full until engine time 200 s, and n2 without a known end."""

    def __init__(self) -> None:
        super().__init__()
        engine = self.parts.state.engine = Engine(
            EngineConfig(standing_pins=True, standing_pin_after_s=0.0), Policies()
        )
        for name in NODES:
            engine.step(NodeSeen(at_s=100.0, node=node(name)))
        self.slurm.lease_s = None
        self.holders = [self.slurm.submit(gpus_per_node=8, node_list=name)[0] for name in NODES]
        self.slurm.lease_s = 60
        for job_id, name, end_s in zip(self.holders, NODES, (200.0, None), strict=True):
            shares = (share(name, *range(8)),)
            self.step(JobStarted(at_s=100.0, job_id=job_id, shares=shares, end_s=end_s))

    def step(self, event: Event) -> tuple[Action, ...]:
        """Feed an event to the engine and its actions to the applier."""
        actions = self.parts.state.engine.step(event)
        for action in actions:
            if not isinstance(action, WakeAt | PolicyFailed):
                self.applier.submit(action, 0)
        return actions

    def queue(self, *, gpus: int = 2, nodes: int = 1, priority: int = 0) -> JobId:
        """Submit a job to both."""
        (job_id,) = self.slurm.submit(gpus_per_node=gpus, nodes=(nodes, nodes))
        spec = job(job_id, gpus=gpus, nodes=nodes, priority=priority)
        self.step(JobQueued(at_s=101.0, job=spec))
        return job_id


async def test_the_next_job_waits_in_slurm_for_busy_gpus() -> None:
    site = BusySite()
    job_id = site.queue()
    await site.done()
    await site.applier.renew([job_id])

    assert site.slurm.argvs[-1][2] == f"jobid={job_id}"
    assert {"ReqNodeList=n1", "StartTime=now"} <= set(site.slurm.argvs[-1])
    assert site.count("pins", outcome="standing") == 1
    site.slurm.end(site.holders[0])
    assert await site.gpus(job_id) == {"n1": (0, 1)}


async def test_a_pin_that_moves_keeps_the_age_of_the_job() -> None:
    site = BusySite()
    job_id = site.queue()
    await site.done()
    site.step(JobEnded(at_s=110.0, job_id=site.holders[1]))
    site.slurm.end(site.holders[1])
    await site.done()

    assert not [word for word in site.slurm.argvs[-1] if word.startswith("StartTime")]
    assert (await site.gpus(job_id)).keys() == {"n2"}


async def test_the_gpus_of_a_standing_pin_come_free_and_slurm_is_not_asked_again() -> None:
    site = BusySite()
    site.queue()
    await site.done()
    count = len(site.slurm.argvs)
    site.step(JobEnded(at_s=110.0, job_id=site.holders[0]))
    await site.done()
    assert len(site.slurm.argvs) == count


async def test_a_pin_that_moves_to_where_any_gpu_may_be_reserved_leaves_no_types() -> None:
    site = BusySite()
    job_id = site.queue()
    await site.done()
    site.parts.state.unsure_nodes = frozenset({NodeName(NODES[1])})
    site.step(JobEnded(at_s=110.0, job_id=site.holders[1]))
    site.slurm.end(site.holders[1])
    await site.done()

    unpin, pin = site.slurm.argvs[-2:]
    assert {"ReqNodeList=", "StartTime=now+60"} <= set(unpin)
    assert {"ReqNodeList=n2", "StartTime=now"} <= set(pin)
    assert (await site.gpus(job_id)).keys() == {"n2"}


async def test_a_pin_that_slurmctld_has_forgotten_is_made_again_once_its_gpus_are_free() -> None:
    """Killed, slurmctld forgets what it had not saved; until then the job is leased as before."""
    site = BusySite()
    job_id = site.queue()
    await site.done()
    await site.slurm.unpin(job_id, lease_s=60)
    site.slurm.end(site.holders[0])
    site.step(JobEnded(at_s=110.0, job_id=site.holders[0]))
    await site.done()
    assert site.slurm.state(job_id) is squeue.SlurmJobState.PENDING
    for at_s in (120.0, 125.0, 130.0):
        site.step(Tick(at_s=at_s))
        await site.done()
    assert await site.gpus(job_id) == {"n1": (0, 1)}


async def test_a_job_that_is_no_longer_next_is_leased_again() -> None:
    site = BusySite()
    first = site.queue()
    await site.done()
    urgent = site.queue(priority=9)
    await site.done()

    (unpin,) = [argv for argv in site.slurm.argvs if f"jobid={first}" in argv][-1:]
    assert "StartTime=now+60" in unpin
    assert "ReqNodeList=" in unpin
    assert site.parts.state.engine.record(urgent).standing is not None


async def test_a_job_on_several_nodes_is_moved_in_two_steps() -> None:
    site = BusySite()
    job_id = site.queue(nodes=2)
    await site.done()
    site.step(NodeSeen(at_s=110.0, node=node("n3")))
    moved = site.step(JobEnded(at_s=110.0, job_id=site.holders[0]))
    await site.done()

    assert [action for action in moved if isinstance(action, Place)]
    first, second = [argv for argv in site.slurm.argvs if f"jobid={job_id}" in argv][-2:]
    assert "StartTime=now+60" in first
    assert not [word for word in first if word.startswith("ReqNodeList")]
    assert {"ReqNodeList=n1,n3", "StartTime=now"} <= set(second) or "ReqNodeList=n[1,3]" in second


async def test_a_standing_pin_that_slurm_refuses_is_reported() -> None:
    site = BusySite()
    site.slurm.inject("pin", Fault.REFUSED)
    job_id = site.queue()
    await site.done()
    (refused,) = site.parts.emitted
    assert isinstance(refused, PlacementRefused)
    assert refused.job_id == job_id


async def test_a_pin_that_the_engine_has_dropped_is_not_carried_out() -> None:
    site = BusySite()
    job_id = site.queue()
    site.step(JobEnded(at_s=101.0, job_id=job_id))
    await site.done()
    assert site.count("pins", outcome="standing") == 0


async def test_a_job_whose_request_changes_is_unpinned_at_the_next_renewal_at_the_latest() -> None:
    """The engine forgets the pin without an Unpin, and need not report that the job waits."""
    site = BusySite()
    job_id = site.queue()
    await site.done()
    spec = replace(site.parts.state.engine.record(job_id).spec, excluded_nodes=(NodeName("n1"),))
    site.parts.state.engine.step(JobChanged(at_s=105.0, job=replace(spec, eligible_s=500.0)))
    await site.applier.renew([job_id])
    await site.done()
    assert {"ReqNodeList=", "StartTime=now+60"} <= set(site.slurm.argvs[-1])


async def test_a_job_that_is_held_while_it_is_pinned_is_unpinned_once_it_is_released() -> None:
    site = BusySite()
    job_id = site.queue()
    await site.done()
    site.slurm.hold(job_id)
    site.step(JobWithdrawn(at_s=105.0, job_id=job_id, reason="is held"))
    count = len(site.slurm.argvs)
    await site.applier.renew([job_id])
    await site.done()
    assert len(site.slurm.argvs) == count
    site.slurm.hold(job_id, release=True)
    await site.applier.renew([job_id])
    await site.done()
    assert {"ReqNodeList=", "StartTime=now+60"} <= set(site.slurm.argvs[-1])


async def test_taking_back_a_pin_that_never_was_asks_slurm_nothing() -> None:
    site = BusySite()
    job_id = site.queue(gpus=1)
    await site.done()
    count = len(site.slurm.argvs)
    site.applier.submit(Unpin(job_id=JobId("99")), 0)
    await site.done()
    assert len(site.slurm.argvs) == count
    assert site.parts.state.engine.record(job_id).standing is not None


def adopted(site: BusySite, job_id: JobId) -> None:
    """Pin a job as an earlier daemon would have, and have the applier find it."""
    argv = commands.pin(
        job_id,
        nodes=["n2"],
        gpu_indices=[2, 3],
        writes_per_job=True,
        admin_comment="roost:lease was=TresPerNode:gres/gpu:2",
        prefix="gres/",
    )
    site.slurm.update(job_id, **dict(word.split("=", 1) for word in argv[3:]))
    site.applier.adopt([job_id], [job_id])


async def test_a_job_found_pinned_that_is_next_is_pinned_again_and_keeps_its_age() -> None:
    site = BusySite()
    (job_id,) = site.slurm.submit(gpus_per_node=2)
    adopted(site, job_id)
    site.step(JobQueued(at_s=101.0, job=job(job_id, gpus=2)))
    await site.applier.renew([job_id])
    await site.done()
    await site.applier.renew([job_id])
    await site.done()

    (argv,) = [argv for argv in site.slurm.argvs if f"jobid={job_id}" in argv]
    assert "ReqNodeList=n1" in argv
    assert not [word for word in argv if word.startswith("StartTime")]


async def test_a_job_found_pinned_that_is_not_next_gets_its_request_back_and_a_lease() -> None:
    site = BusySite()
    site.queue(priority=9)
    (job_id,) = site.slurm.submit(gpus_per_node=2)
    adopted(site, job_id)
    site.step(JobQueued(at_s=101.0, job=job(job_id, gpus=2)))
    await site.done()

    (argv,) = [argv for argv in site.slurm.argvs if f"jobid={job_id}" in argv]
    assert {"TresPerNode=gres/gpu:2", "ReqNodeList=", "StartTime=now+60"} <= set(argv)


async def test_a_job_found_pinned_of_which_the_engine_hears_nothing_is_unpinned_too() -> None:
    site = BusySite()
    (job_id,) = site.slurm.submit(gpus_per_node=2)
    adopted(site, job_id)
    site.slurm.inject("unpin", Fault.LOST_BEFORE)
    await site.applier.renew([job_id])  # the engine may not have got to it yet
    assert site.slurm.argvs == []
    for _ in range(2):  # Slurm does not answer the first time
        await site.applier.renew([job_id])
        await site.done()
    (argv,) = site.slurm.argvs
    assert "TresPerNode=gres/gpu:2" in argv
    await site.applier.renew([job_id])
    assert site.slurm.argvs[-1] == commands.renew([job_id], 60)


async def test_a_job_found_pinned_that_roost_will_not_place_is_unpinned_before_its_release() -> (
    None
):
    site = BusySite()
    (job_id,) = site.slurm.submit(gpus_per_node=2)
    adopted(site, job_id)
    site.applier.release_needless([job_id])
    await site.done()
    unpinned, released = site.slurm.argvs
    assert "TresPerNode=gres/gpu:2" in unpinned
    assert released == commands.release([job_id])


async def test_a_job_found_eligible_is_pinned_without_a_new_begin() -> None:
    site = BusySite()
    (job_id,) = site.slurm.submit(gpus_per_node=2)
    site.slurm.update(job_id, StartTime="now")
    site.applier.adopt([], [job_id])
    site.step(JobQueued(at_s=101.0, job=job(job_id, gpus=2)))
    await site.done()
    (argv,) = site.slurm.argvs
    assert "ReqNodeList=n1" in argv
    assert not [word for word in argv if word.startswith("StartTime")]


async def cpu_of_a_renewal_s(job_count: int) -> float:
    """CPU time of a renewal of all leases after half of the jobs were released."""
    site = Site()
    job_ids = [JobId(str(number)) for number in range(1, job_count + 1)]
    site.applier._releases._released.update(job_ids[::2])
    took_s = []
    for _ in range(5):
        began_s = time.thread_time()
        for job_id in job_ids:
            site.applier._is_waiting(job_id)
        took_s.append(time.thread_time() - began_s)
    return min(took_s)


async def test_a_renewal_costs_no_more_than_the_number_of_released_jobs() -> None:
    assert await cpu_of_a_renewal_s(8_000) < 8 * 3 * await cpu_of_a_renewal_s(1_000)
