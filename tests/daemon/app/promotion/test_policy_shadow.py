"""policy_shadow: fed in batches, given up when it falls behind, never in the loop's way."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.daemon.app.parts import Parts, no_disk

from roost_engine.domain.actions import Place
from roost_engine.domain.events import JobQueued, NodeSeen, Tick
from roost_engine.domain.model import JobId
from roost_engine.plugins.plugins import Plugins
from roost_engine.policies.canary import Slot
from roost_engine.testing.builders import job, node, share
from roost_formats.journal.journal import Journal
from roost_formats.journal.records import RunHead
from roost_formats.journal.shadow import Choice, ShadowChoice
from roostd.app.promotion import policy_shadow
from roostd.app.promotion.policy_shadow import PolicyShadow
from roostd.ops.promotions import Promotions, ShadowRequest
from roostd.ops.worker_process import WorkerProcess

LAS = ShadowRequest(slot=Slot.ORDER, name="las")


@pytest.fixture
async def parts() -> Parts:
    found = Parts("a")
    found.state.promotions = Promotions(shadow=LAS)
    return found


@pytest.fixture
async def shadow(parts: Parts) -> AsyncIterator[PolicyShadow]:
    found = PolicyShadow(parts.state, no_disk())
    yield found
    await found.stop()


async def test_it_decides_in_a_process_of_its_own(parts: Parts, shadow: PolicyShadow) -> None:
    shadow.begin(Plugins(), ())
    seen = NodeSeen(at_s=100.0, node=node("a"))
    shadow.observe(seen, ())
    queued = JobQueued(at_s=101.0, job=job("1"))
    actions = parts.state.engine.step(queued)
    assert any(isinstance(action, Place) for action in actions)
    shadow.observe(queued, actions)
    await shadow.turn()
    figures = parts.state.shadow
    assert figures is not None
    assert (figures.decision_count, figures.elsewhere_count, figures.fault) == (1, 0, "")


async def test_without_a_request_nothing_is_kept(parts: Parts, shadow: PolicyShadow) -> None:
    parts.state.promotions = Promotions()
    shadow.begin(Plugins(), ())
    shadow.observe(Tick(at_s=100.0), ())
    await shadow.turn()
    assert parts.state.shadow is None


async def test_choices_of_before_a_restart_count(tmp_path: Path) -> None:
    parts = Parts("a", paths={"state_dir": str(tmp_path)})
    parts.state.promotions = Promotions(shadow=replace(LAS, since_epoch_s=1_000.0))
    here = Choice(at_s=10.0, shares=(share("a", 0),), tier=0)
    earlier = ShadowChoice(
        at_s=10.0,
        job_id=JobId("1"),
        slot="order",
        policy="order:las",
        active=here,
        shadow=None,
        reason="waits",
    )
    head = RunHead(version="1", policy="", epoch_of_zero_s=995.0, began_s=0.0, config=b"")
    journal = Journal.open(tmp_path)
    by_another, too_early = replace(earlier, policy="order:learned"), replace(earlier, at_s=4.0)
    journal.write([head, earlier, by_another, too_early, head, replace(earlier, shadow=here)])
    journal.close()
    shadow = PolicyShadow(parts.state, no_disk())

    await shadow.recall()

    figures = parts.state.shadow
    assert figures is not None
    assert (figures.decision_count, figures.waiting_count, figures.elsewhere_count) == (2, 1, 0)
    assert figures.choices[JobId("1")].shadow == here  # the newest of the job


async def test_without_a_journal_the_shadow_counts_from_now(tmp_path: Path) -> None:
    parts = Parts("a", paths={"state_dir": str(tmp_path)})
    parts.state.promotions = Promotions(shadow=LAS)
    await PolicyShadow(parts.state, no_disk()).recall()
    assert parts.state.shadow is None


async def test_a_process_that_fails_stands_still_until_the_next_engine(
    parts: Parts, shadow: PolicyShadow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "_process", WorkerProcess(("-c", "raise SystemExit(3)")))
    shadow.begin(Plugins(), ())
    await shadow.turn()
    figures = parts.state.shadow
    assert figures is not None
    assert figures.fault
    monkeypatch.undo()
    shadow.begin(Plugins(), ())
    assert figures.fault == ""


async def test_the_figures_of_another_policy_begin_at_zero(
    parts: Parts, shadow: PolicyShadow
) -> None:
    shadow.begin(Plugins(), ())
    first = parts.state.shadow
    assert first is not None
    shadow.begin(Plugins(), ())
    assert parts.state.shadow is first  # a reload
    parts.state.promotions = Promotions(shadow=ShadowRequest(slot=Slot.ORDER, name="learned"))
    shadow.begin(Plugins(), ())
    assert parts.state.shadow is not None
    assert parts.state.shadow is not first


class _Answers(WorkerProcess):
    """A process that answers, or ends, once a test says so."""

    def __init__(self) -> None:
        super().__init__(())
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.answer: tuple[ShadowChoice, ...] | None = ()

    async def ask(self, request: object, limit_s: float) -> object:
        self.asked.set()
        await self.may_answer.wait()
        if self.answer is None:
            raise EOFError("the process ended")
        return self.answer


@pytest.mark.parametrize("ends", [False, True])
async def test_what_becomes_of_a_shadow_is_not_told_of_the_next_one(
    parts: Parts, shadow: PolicyShadow, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    here = Choice(at_s=1.0, shares=(share("a", 0),), tier=0)
    choice = ShadowChoice(
        at_s=1.0,
        job_id=JobId("1"),
        slot="order",
        policy="order:las",
        active=here,
        shadow=here,
        reason="",
    )
    process = _Answers()
    process.answer = None if ends else (choice,)
    monkeypatch.setattr(shadow, "_process", process)
    shadow.begin(Plugins(), ())
    turn = asyncio.create_task(shadow.turn())
    await process.asked.wait()
    parts.state.promotions = Promotions(shadow=ShadowRequest(slot=Slot.ORDER, name="learned"))
    shadow.begin(Plugins(), ())
    process.may_answer.set()
    await turn
    figures = parts.state.shadow
    assert figures is not None
    assert (figures.decision_count, figures.fault) == (0, "")
    assert shadow._is_on
    assert shadow._pending  # the next shadow begins with the next turn


async def test_a_shadow_too_far_behind_is_given_up(
    parts: Parts, shadow: PolicyShadow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_shadow, "_BACKLOG_LIMIT", 10)
    shadow.begin(Plugins(), ())
    for _ in range(20):
        shadow.observe(Tick(at_s=100.0), ())
    assert parts.state.shadow is not None
    assert parts.state.shadow.fault == "it is 10 events behind"


async def test_a_model_that_is_gone_is_told(parts: Parts, shadow: PolicyShadow) -> None:
    gone = ShadowRequest(slot=Slot.ORDER, name="gone", path="/no/such.onnx")
    parts.state.promotions = Promotions(shadow=gone)
    shadow.begin(Plugins(), ())
    assert parts.state.shadow is not None
    assert "cannot be read: No such file" in parts.state.shadow.fault


async def test_the_decision_loop_pays_a_few_microseconds_an_event(
    parts: Parts, shadow: PolicyShadow
) -> None:
    shadow.begin(Plugins(), ())
    event, began_s = Tick(at_s=100.0), time.thread_time()
    for _ in range(10_000):
        shadow.observe(event, ())
    assert (time.thread_time() - began_s) / 10_000 < 50e-6
