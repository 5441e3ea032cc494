"""fixed_delay: timers set by hand."""

from math import inf, nan

import pytest
from tests.engine.offers import ACROSS, NODE, RACK, offer, outcome, record

from roost_engine.gate.fixed_delay import FixedDelay, always_wait
from roost_engine.policies.protocols import Allow, Defer


def test_each_tier_has_its_timer() -> None:
    gate, job = FixedDelay(60.0, 120.0), record(queued_s=10.0)
    assert gate.decide(offer(job, RACK, 10.0)) == Defer(70.0, "waits for GPUs on one node")
    assert gate.decide(offer(job, ACROSS, 70.0)) == Defer(130.0, "waits for GPUs on one node")
    assert gate.decide(offer(job, RACK, 70.0)) == Allow()
    assert gate.decide(offer(job, ACROSS, 130.0)) == Allow()


def test_the_closest_tier_that_a_job_can_have_is_taken_at_once() -> None:
    gate = always_wait()
    assert gate.decide(offer(record(gpus=8), NODE, 0)) == Allow()
    assert gate.decide(offer(record(gpus=16), RACK, 0)) == Allow()
    assert gate.decide(offer(record(gpus=32), ACROSS, 0)) == Allow()


def test_always_wait_defers_for_ever() -> None:
    gate, job = always_wait(), record()
    assert gate.decide(offer(job, RACK, 1e9)) == Defer(inf, "waits for GPUs on one node")
    gate.note(outcome(job, None, 1e9))


def test_timers_of_0_allow_at_once() -> None:
    assert FixedDelay(0.0, 0.0).decide(offer(record(), ACROSS, 0.0)) == Allow()


@pytest.mark.parametrize("timer_s", [-1.0, nan])
def test_refuses_absurd_timers(timer_s: float) -> None:
    with pytest.raises(ValueError, match="want timers"):
        FixedDelay(timer_s, 10.0)
