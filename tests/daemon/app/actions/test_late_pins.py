"""A GPU's other seat is given away only once a pin that the engine has dropped is gone."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from tests.daemon.app.parts import Parts, no_disk

from roost_engine.domain.actions import Action, Place, Wait
from roost_engine.domain.events import (
    JobEnded,
    JobQueued,
    JobStarted,
    NodeSeen,
    PlacementRefused,
    Tick,
)
from roost_engine.domain.model import JobId, JobSpec, Placement
from roost_engine.job_record import shares_of
from roost_engine.plugins.plugins import Plugins
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.sharing.pairs import PairSpeed, SharingConfig
from roost_engine.testing.builders import bridges, job, node, topology
from roostd.app.actions.applier import Applier
from roostd.ops.metrics import Metrics
from roostd.slurm.port import JobNotWaiting
from roostd.testing.slurm_stand_in import SlurmStandIn

HOST, GUEST, PLAIN = JobId("1"), JobId("2"), JobId("3")
SHARING = SharingConfig(pairs=(PairSpeed("a", "a", 0.98),))


class SlowSlurm(SlurmStandIn):
    """Records what it is asked for; takes pins back when the test says so."""

    def __init__(self) -> None:
        super().__init__([node("n1", 2)], now=lambda: 0.0)
        self.asked, self.may_unpin, self.has_started = list[str](), asyncio.Event(), False

    async def pin(
        self,
        job_id: JobId,
        placement: Placement,
        *,
        lease_s: int = 0,
        is_eligible: bool = False,
        beside: Sequence[JobId] = (),
    ) -> None:
        self.asked.append(f"pin {' beside '.join((job_id, *beside))}")

    async def unpin(self, job_id: JobId, lease_s: int) -> str:
        await self.may_unpin.wait()
        self.asked.append(f"unpin {job_id}")
        if self.has_started:
            raise JobNotWaiting(job_id, "RUNNING")
        return ""


class SeatSite:
    """A node of two GPUs with second seats: a host on one, a job of no interest on the other."""

    def __init__(self) -> None:
        self.parts = Parts(policies=Plugins(sharing=SHARING).policies(HeuristicScore()))
        self.engine = self.parts.state.engine
        self.engine.step(NodeSeen(at_s=0.0, node=replace(node("n1", 1), has_seats=True)))
        seen = replace(topology("n1", bridges(1)), gpu_memory_bytes=8)
        self.engine.step(seen)
        self.slurm = SlowSlurm()
        metrics = Metrics(CollectorRegistry())
        self.applier = Applier(
            self.slurm,
            self.parts.state,
            no_disk(),
            metrics,
            self.parts.emitted.append,
            lambda job_id: None,
            lambda: None,
            4,
        )

    def queue(self, job_id: JobId, *, shares: bool) -> tuple[Action, ...]:
        spec: JobSpec = replace(
            job(job_id, gpus=1), model="a", shares_gpus=shares, gpu_memory_bytes=1
        )
        return self.engine.step(JobQueued(at_s=100.0, job=spec))

    def submit(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Place | Wait):
                self.applier.submit(action, 0)

    async def settle(self) -> None:
        """Let the applier do what it can."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def drop_the_guests_pin(self) -> None:
        """Have the guest pinned and not started, its host end, and the GPU given to another job."""
        (place,) = (one for one in self.queue(HOST, shares=True) if isinstance(one, Place))
        shares = shares_of(place.placement)
        self.engine.step(JobStarted(at_s=100.0, job_id=HOST, shares=shares))
        self.submit(self.queue(GUEST, shares=True))
        await self.settle()
        assert self.slurm.asked == ["pin 2 beside 1"]
        self.submit(self.queue(PLAIN, shares=False))
        self.engine.step(JobEnded(at_s=101.0, job_id=HOST))
        late_s = self.engine.record(GUEST).start_deadline_s
        actions = self.engine.step(Tick(at_s=late_s))
        assert [one.job_id for one in actions if isinstance(one, Place)] == [PLAIN]
        self.submit(actions)
        await self.settle()


@pytest.fixture
async def site() -> SeatSite:
    return SeatSite()


async def test_the_other_seat_is_pinned_once_the_first_pin_is_gone(site: SeatSite) -> None:
    await site.drop_the_guests_pin()
    assert site.slurm.asked == ["pin 2 beside 1"]
    site.slurm.may_unpin.set()
    await site.settle()
    assert site.slurm.asked == ["pin 2 beside 1", "unpin 2", "pin 3"]
    assert not site.parts.emitted


async def test_the_other_seat_is_not_pinned_where_the_job_has_started(site: SeatSite) -> None:
    await site.drop_the_guests_pin()
    site.slurm.has_started = True
    site.slurm.may_unpin.set()
    await site.settle()
    assert site.slurm.asked == ["pin 2 beside 1", "unpin 2"]
    (event,) = site.parts.emitted
    assert isinstance(event, PlacementRefused)
    assert event.job_id == PLAIN
    assert event.reason == "job 2 may start on the other seat of its GPUs"


async def test_what_is_known_of_a_job_that_has_ended_stops_no_other(site: SeatSite) -> None:
    await site.drop_the_guests_pin()
    site.slurm.has_started = True
    site.slurm.may_unpin.set()
    await site.settle()
    placement, late = site.engine.record(PLAIN).placement, site.applier._late_pins
    assert placement is not None
    assert late.beside(PLAIN, placement) == [GUEST]
    site.applier.forget(GUEST)
    assert late.beside(PLAIN, placement) == []
