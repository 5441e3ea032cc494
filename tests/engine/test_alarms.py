"""Time alone: the engine asks to be woken for the next alarm that still matters."""

from collections.abc import Sequence

from tests.engine.conftest import HarnessFactory

from roost_engine.domain.actions import WakeAt
from roost_engine.domain.events import Event, JobQueued, Tick
from roost_engine.testing.builders import EngineHarness, bridges, job, node


def wakes(events: Sequence[Event], harness: EngineHarness) -> list[float]:
    actions = [action for event in events for action in harness.feed(event)]
    return [action.at_s for action in actions if isinstance(action, WakeAt)]


def test_a_wake_up_is_requested_again_only_for_an_earlier_time(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")], bridges())
    begins = [
        JobQueued(at_s=0.0, job=job(str(eligible_s), eligible_s=eligible_s))
        for eligible_s in (50.0, 70.0, 50.0, 40.0)
    ]
    assert wakes(begins, harness) == [50.0, 40.0]
    assert wakes([Tick(at_s=40.0)], harness) == [50.0]
    assert wakes([Tick(at_s=41.0)], harness) == []


def test_no_wake_up_is_requested_for_a_job_that_has_started(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1"), job("2"))
    assert wakes([Tick(at_s=10.0)], harness) == []
