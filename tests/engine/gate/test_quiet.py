"""The gate `waits_for_quiet`: waits for quiet places, where neighbours cost less."""

from dataclasses import replace
from typing import Any

from tests.engine.offers import NODE, offer, outcome, record, run, two_racks

from roost_engine.gate.delay import DelayConfig, DelayGate
from roost_engine.gate.waiting_curve import WaitSample
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import Allow, Defer, GateVerdict
from roost_engine.prediction.speed.job_class import TimerClass

HOUR_S = 3_600.0


def gate(is_on: bool = True, **options: Any) -> DelayGate:
    found = DelayGate(DelayConfig(waits_for_quiet=is_on, **options))
    for number in range(300):
        found.predictors.run_ended(run(record(str(number), 2), 0.0, 10 * HOUR_S))
    return found


def asked(delay: DelayGate, job: JobRecord, lost_frac: float, at_s: float = 0.0) -> GateVerdict:
    found = offer(job, NODE, at_s, two_racks())
    return delay.decide(replace(found, lost_frac=lambda: lost_frac))


def quiet_comes_after(delay: DelayGate, *waits_s: float) -> None:
    assert delay._quiet is not None
    for low_or_high in (0.0, 0.2, 0.5):
        for waited_s in waits_s:
            sample = WaitSample(0.0, waited_s, True)
            delay._quiet.timers.add(TimerClass.of(2, low_or_high), 0, sample)


def test_a_job_waits_where_neighbours_cost_more_than_the_wait() -> None:
    delay, job = gate(), record("1", 2)
    quiet_comes_after(delay, *[300.0] * 20)
    verdict = asked(delay, job, 0.3)
    assert isinstance(verdict, Defer)
    assert verdict.reason == "waits for a quiet place: neighbours would cost 30 % of its speed"
    assert 0 < verdict.until_s <= delay.predictors.run_times(job, 0.0).rest_s() / 2
    assert isinstance(asked(delay, job, 0.01, 60.0), Allow)


def test_a_job_does_not_wait_for_what_comes_late() -> None:
    delay = gate()
    quiet_comes_after(delay, *[50 * HOUR_S] * 20)
    assert isinstance(asked(delay, record("1", 2), 0.06), Allow)


def test_nothing_waits_unless_it_is_switched_on() -> None:
    delay = gate(is_on=False)
    assert isinstance(asked(delay, record("1", 2), 0.9), Allow)
    assert delay.state().quiet is None


def test_caps_hold_for_a_job_that_no_place_would_please() -> None:
    delay, job = gate(), record("1", 2, limit_s=10 * HOUR_S)
    quiet_comes_after(delay, *[600.0] * 20)
    first = asked(delay, job, 0.5)
    assert isinstance(first, Defer)
    assert first.until_s <= 1.5 * HOUR_S
    assert isinstance(asked(delay, job, 0.5, 1.5 * HOUR_S), Allow)


def test_the_gate_learns_how_long_quiet_places_take_and_keeps_it() -> None:
    delay = gate()
    for number in range(30):
        job = record(f"j{number}", 2)
        assert isinstance(asked(delay, job, 0.5), Defer)
        assert isinstance(asked(delay, job, 0.0, 120.0), Allow)
        delay.note(outcome(job, NODE, 120.0))
    again = gate()
    again.restore(delay.state())
    waits = [wait for _, _, wait in delay.state().quiet.timers.waits]  # type: ignore[union-attr]
    assert {(wait.waited_s, wait.is_answered) for wait in waits} == {(120.0, True)}
    found = [asked(one, record("next", 2), 0.5, 1.0) for one in (delay, again)]
    assert found[0] == found[1]
    assert isinstance(found[0], Defer)
