"""roostd.core.policy: the default order and gate."""

from random import Random

from roostd.core.policy import Allow, KeyedOrder, OpenGate, PriorityOrder
from roostd.testing.builders import job
from roostd.testing.fakes import FixedOrder


def test_serves_by_priority_then_submission_then_number() -> None:
    jobs = [
        job("7", priority=3, submit_s=9.0),
        job("8", priority=2, submit_s=1.0),
        job("9_2", priority=2, submit_s=5.0),
        job("9_10", priority=2, submit_s=5.0),
        job("10", priority=2, submit_s=5.0),
    ]
    shuffled = list(jobs)
    Random(0).shuffle(shuffled)
    ranked = PriorityOrder().rank(shuffled, at_s=0.0)
    assert ranked == [spec.job_id for spec in jobs]


def test_its_keys_sort_as_it_ranks() -> None:
    order, random = PriorityOrder(), Random(1)
    jobs = [
        job(f"{random.randint(1, 99)}_{number}", priority=random.randint(0, 3))
        for number in range(50)
    ]
    by_key = sorted(jobs, key=order.key)
    assert order.rank(jobs, at_s=0.0) == [spec.job_id for spec in by_key]


def test_only_some_orders_have_keys() -> None:
    assert isinstance(PriorityOrder(), KeyedOrder)
    assert not isinstance(FixedOrder(), KeyedOrder)


def test_the_open_gate_allows_everything() -> None:
    assert OpenGate().decide(job("1"), waited_s=0.0, tier=2, at_s=0.0) == Allow()
