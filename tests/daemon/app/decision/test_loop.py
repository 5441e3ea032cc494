"""The decision loop: order and time of events, load before a decision, actions handed on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import TypeAlias

import pytest
from prometheus_client import CollectorRegistry
from tests.daemon.app.parts import Parts
from tests.daemon.rpc.probes import hello, sample

from roost_engine.domain.actions import (
    Action,
    PinStanding,
    Place,
    Preempt,
    ReleaseToSlurm,
    Unpin,
    Wait,
)
from roost_engine.domain.events import (
    Event,
    JobEnded,
    JobQueued,
    JobStarted,
    LoadsSeen,
    NodeSeen,
    Tick,
    TimerPinned,
)
from roost_engine.domain.model import JobId, NodeName
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import job, node, share
from roost_engine.testing.fakes import FailingScore
from roost_formats.journal.records import Step
from roost_formats.journal.waits import WaitChange
from roostd.app.decision import loop
from roostd.app.decision.loop import DecisionLoop
from roostd.app.decision.recorder import Recorder
from roostd.ops.metrics import Metrics
from roostd.telemetry.probe_messages import read_hello

ONE = JobId("1")


EngineAction: TypeAlias = Place | PinStanding | Unpin | ReleaseToSlurm | Wait | Preempt


class FakeSink:
    """Keeps the actions, with their tickets, and the jobs that started, ended or came back."""

    def __init__(self) -> None:
        self.actions: list[tuple[EngineAction, int]] = []
        self.forgotten: list[JobId] = []
        self.returned: list[JobId] = []

    def submit(self, action: EngineAction, ticket: int) -> None:
        """See loop.ActionSink."""
        self.actions.append((action, ticket))

    def forget(self, job_id: JobId) -> None:
        """See loop.ActionSink."""
        self.forgotten.append(job_id)

    def requeued(self, job_id: JobId) -> None:
        """See loop.ActionSink."""
        self.returned.append(job_id)


class KeepingRecorder(Recorder):
    """Keeps the steps in memory; the ticket of a step is its number."""

    def __init__(self) -> None:
        super().__init__(None, fault="no disk")
        self.steps: list[Step] = []

    def append(
        self, event: Event, actions: tuple[Action, ...], waits: tuple[WaitChange, ...] = ()
    ) -> int:
        """See Recorder."""
        self.steps.append(Step(event, actions, waits))
        return len(self.steps)


class Site:
    """A loop on an engine without nodes, at 100 s."""

    def __init__(self, policies: Policies | None = None) -> None:
        self.parts = Parts(policies=policies)
        self.sink, self.recorder = FakeSink(), KeepingRecorder()
        self.metrics = Metrics(CollectorRegistry())
        self.beats: list[float] = []
        self.loop = DecisionLoop(
            self.parts.state,
            self.recorder,
            self.sink,
            self.metrics,
            3.0,
            lambda: self.beats.append(self.parts.clock.at_s),
        )

    @contextlib.asynccontextmanager
    async def turning(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.loop.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def tell(self, *events: Event) -> None:
        """Put events and wait until the engine has had them all."""
        async with asyncio.timeout(60):
            for event in events:
                await self.loop.report(event)

    def kinds(self) -> list[str]:
        return [type(step.event).__name__ for step in self.recorder.steps]

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"roost_{name}_total", labels) or 0.0


def seen(name: str = "n1", at_s: float = 100.0) -> NodeSeen:
    return NodeSeen(at_s=at_s, node=node(name, 4))


def queued(job_id: JobId = ONE, at_s: float = 100.0, gpus: int = 2) -> JobQueued:
    return JobQueued(at_s=at_s, job=job(job_id, gpus=gpus))


async def test_an_action_is_handed_on_with_the_ticket_of_its_step() -> None:
    site = Site()
    async with site.turning():
        await site.tell(seen(), queued())

    ((action, ticket),) = site.sink.actions
    assert isinstance(action, Place)
    assert action in site.recorder.steps[ticket - 1].actions
    assert site.count("decisions", policy="heuristic") == 1


async def test_an_event_that_is_told_late_counts_as_of_now() -> None:
    """The engine's time never goes back; what is recorded is what the engine had."""
    site = Site()
    async with site.turning():
        await site.tell(seen(at_s=110.0), queued(at_s=105.0), seen("n2", at_s=112.0))
    assert [step.event.at_s for step in site.recorder.steps] == [110.0, 110.0, 112.0]


async def test_the_engine_gets_the_time_that_it_asked_for() -> None:
    site = Site()
    async with site.turning():
        await site.tell(seen(), queued())  # to be started within 10 s
        site.parts.clock.at_s = 109.0
        await site.tell(seen("n2", at_s=109.0))
        assert "Tick" not in site.kinds()

        site.parts.clock.at_s = 110.0
        await site.tell(seen("n3", at_s=110.0), seen("n4", at_s=110.0))

    ticks = [step.event for step in site.recorder.steps if isinstance(step.event, Tick)]
    assert ticks == [Tick(at_s=110.0)]


async def test_the_newest_load_is_given_before_a_decision_and_only_then() -> None:
    site = Site()
    board = site.parts.state.board
    async with site.turning():
        await site.tell(seen())
        report = board.apply_hello(read_hello(hello("n1")), "stream")
        board.apply_sample(report, sample(1), is_checked=True)
        await site.tell(seen("n2"))
        assert "LoadsSeen" not in site.kinds()

        board.apply_sample(report, sample(2), is_checked=True)
        await site.tell(queued())

    assert site.kinds()[-2:] == ["LoadsSeen", "JobQueued"]
    assert site.kinds().count("LoadsSeen") == 1


def send_samples(site: Site, count: int, number: int) -> None:
    """Have the probes of so many nodes send a sample."""
    board = site.parts.state.board
    for index in range(count):
        name = f"n{index}"
        found = board.report(NodeName(name))
        report = found or board.apply_hello(read_hello(hello(name)), "stream")
        board.apply_sample(report, sample(number), is_checked=True)


async def test_the_load_of_many_nodes_takes_many_turns_and_a_decision_waits_for_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "_LOADS_TURN_S", 0.0)
    site = Site()
    send_samples(site, 3, 1)
    site.loop.put(queued())
    for count in range(1, 4):
        site.loop._turn()
        assert site.kinds() == ["LoadsSeen"] * count
    send_samples(site, 3, 2)  # newer load is for the next decision
    site.loop._turn()
    assert site.kinds() == [*["LoadsSeen"] * 3, "JobQueued"]


async def test_the_nodes_of_a_turn_are_one_event() -> None:
    site = Site()
    send_samples(site, 3, 1)
    site.loop.put(queued())
    site.loop._turn()
    assert site.kinds() == ["LoadsSeen", "JobQueued"]
    (event, _) = (step.event for step in site.recorder.steps)
    assert isinstance(event, LoadsSeen)
    assert event.names == ("n0", "n1", "n2")


async def test_the_loop_serves_others_between_two_turns_that_read_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer to an agent takes some eight turns of the event loop."""
    monkeypatch.setattr(loop, "_LOADS_TURN_S", 0.0)
    monkeypatch.setattr(loop, "_LOADS_PAUSE_S", 3_600.0)
    site = Site()
    send_samples(site, 3, 1)
    async with site.turning():
        site.loop.put(queued())
        for _ in range(100):
            await asyncio.sleep(0)
        assert site.kinds() == ["LoadsSeen"]


async def test_load_that_took_long_to_read_is_not_read_again_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "_LOADS_TURN_S", 0.0)
    site = Site()
    for number, at_s in enumerate((100.0, 100.0, 200.0), 1):
        site.parts.clock.at_s = at_s
        send_samples(site, 1, number)
        site.loop.put(queued(JobId(str(number)), at_s=at_s))
        site.loop._turn()
        site.loop._turn()
    once = ["LoadsSeen", "JobQueued"]
    assert site.kinds() == [*once, "JobQueued", *once]


async def test_load_of_a_node_that_goes_while_it_is_read_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "_LOADS_TURN_S", 0.0)
    site = Site()
    send_samples(site, 2, 1)
    site.loop.put(queued())
    site.loop._turn()
    site.parts.state.board.leave(NodeName("n1"), "stream")
    for _ in range(2):
        site.loop._turn()
    assert site.kinds() == ["LoadsSeen", "JobQueued"]


async def test_load_that_was_not_read_before_a_new_engine_began_is_read_by_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "_LOADS_TURN_S", 0.0)
    site = Site()
    send_samples(site, 2, 1)
    site.loop.put(queued())
    site.loop._turn()
    site.loop.restart([])
    site.loop.put(queued(JobId("2")))
    site.loop._turn()
    assert site.kinds() == ["LoadsSeen", "LoadsSeen"]


async def test_a_node_that_slurm_names_gets_what_its_probe_told_before() -> None:
    site = Site()
    site.parts.state.board.apply_hello(read_hello(hello("n1")), "stream")
    async with site.turning():
        await site.tell(seen(), Tick(at_s=100.0))
    assert site.kinds() == ["NodeSeen", "TopologySeen", "Tick"]


async def test_a_job_that_slurm_starts_elsewhere_is_counted_and_one_as_planned_is_not() -> None:
    site = Site()
    async with site.turning():
        await site.tell(seen(), queued(), queued(JobId("2"), gpus=1))
        planned = (share("n1", 0, 1),)
        await site.tell(JobStarted(at_s=101.0, job_id=ONE, shares=planned))
        assert site.count("allocation_mismatches") == 0
        elsewhere = (share("n1", 3),)
        await site.tell(JobStarted(at_s=101.0, job_id=JobId("2"), shares=elsewhere))
        assert site.count("allocation_mismatches") == 1
        await site.tell(JobEnded(at_s=102.0, job_id=ONE))
    assert site.sink.forgotten == ["1", "2", "1"]


async def test_a_job_that_completes_and_has_given_back_its_gpus_is_no_mismatch() -> None:
    site = Site()
    async with site.turning():
        await site.tell(seen(), queued())
        await site.tell(JobStarted(at_s=101.0, job_id=ONE, shares=(share("n1", 0, 1),)))
        await site.tell(JobStarted(at_s=102.0, job_id=ONE, shares=(share("n1"),)))
        assert site.count("allocation_mismatches") == 0


async def test_a_job_of_two_nodes_that_gives_back_the_first_is_no_mismatch() -> None:
    site = Site()
    wide = JobQueued(at_s=100.0, job=job(ONE, gpus=2, nodes=2))
    async with site.turning():
        await site.tell(seen(), seen("n2"), wide)
        got = (share("n1", 0, 1), share("n2", 0, 1))
        await site.tell(JobStarted(at_s=101.0, job_id=ONE, shares=got))
        await site.tell(JobStarted(at_s=102.0, job_id=ONE, shares=got[1:]))
        assert site.count("allocation_mismatches") == 0
        await site.tell(JobStarted(at_s=103.0, job_id=ONE, shares=(share("n2", 2, 3),)))
        assert site.count("allocation_mismatches") == 1


async def test_starts_that_roost_only_watched_are_counted_by_place() -> None:
    site = Site()
    async with site.turning():
        await site.tell(seen())
        for number, gpus in ((1, (0, 1)), (2, (0, 2))):
            watched = job(str(number), gpus=2, binding=False)
            await site.tell(JobQueued(at_s=100.0, job=watched))
            shares = (share("n1", *gpus),)
            await site.tell(JobStarted(at_s=101.0, job_id=JobId(str(number)), shares=shares))
            await site.tell(JobEnded(at_s=102.0, job_id=JobId(str(number))))
    assert site.count("watched_starts", gpus="chosen") == 1
    assert site.count("watched_starts", gpus="other") == 1
    state = site.parts.state
    assert (state.watched_start_count, state.watched_elsewhere_count) == (2, 1)


async def test_only_a_job_that_ran_comes_back() -> None:
    site = Site()
    async with site.turning():
        await site.tell(seen(), queued())
        await site.tell(JobStarted(at_s=101.0, job_id=ONE, shares=(share("n1", 0, 1),)))
        assert site.sink.returned == []
        await site.tell(queued(at_s=102.0))
    assert site.sink.returned == [ONE]


async def test_a_score_that_failed_is_counted_as_a_fallback() -> None:
    site = Site(Policies(score=FailingScore()))
    async with site.turning():
        await site.tell(seen(), queued())
    assert site.count("policy_fallbacks") == 1


async def test_a_new_engine_is_told_the_world_and_what_people_said_but_no_old_event() -> None:
    site = Site()
    said = TimerPinned(at_s=100.0, timer="8/high", pinned_s=300.0)
    waiting = asyncio.create_task(site.loop.report(said))
    await asyncio.sleep(0)
    site.loop.put(queued())

    site.loop.restart([seen("n7")])
    async with site.turning():
        async with asyncio.timeout(60):
            await waiting

    assert site.kinds() == ["NodeSeen", "TimerPinned"]


async def test_a_flood_of_events_is_taken_in_order_and_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "_TURN_S", 60.0)
    site = Site()
    for number in range(500):
        site.loop.put(seen(f"n{number}"))
    site.loop._turn()
    assert len(site.recorder.steps) == 200
    site.loop._turn()
    site.loop._turn()
    nodes = [step.event.node.name for step in site.recorder.steps]  # type: ignore[union-attr]
    assert nodes == [f"n{number}" for number in range(500)]


async def test_a_turn_ends_when_its_time_is_over_and_the_next_continues_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "_TURN_S", 0.0)
    site = Site()
    site.loop.restart([seen(f"n{number}") for number in range(5)])
    for count in range(1, 6):
        site.loop._turn()
        assert len(site.recorder.steps) == count
    nodes = [step.event.node.name for step in site.recorder.steps]  # type: ignore[union-attr]
    assert nodes == [f"n{number}" for number in range(5)]


async def test_the_events_for_a_new_engine_are_made_as_turns_take_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "_TURN_S", 60.0)
    site, made = Site(), list[str]()

    def world() -> Iterator[Event]:
        for number in range(400):
            made.append(f"n{number}")
            yield seen(made[-1])

    site.loop.restart(world())
    assert not made
    site.loop.put(seen("later"))
    for count in (200, 400):
        site.loop._turn()
        assert len(made) == len(site.recorder.steps) == count
    async with site.turning():
        await site.tell(seen("last"))
    nodes = [step.event.node.name for step in site.recorder.steps]  # type: ignore[union-attr]
    assert nodes == [*made, "later", "last"]


async def test_the_heartbeat_beats_at_once_and_then_at_its_interval() -> None:
    site = Site()
    async with site.turning():
        await site.tell(seen())
        assert site.beats == [100.0]
        for at_s in (102.9, 103.0, 105.9, 106.0):
            site.parts.clock.at_s = at_s
            await site.tell(Tick(at_s=at_s), Tick(at_s=at_s))
    assert site.beats == [100.0, 103.0, 106.0]
