"""What the jobs of a play share, by itself."""

from math import inf

from roost_engine.forecast.capacity import LimitEnds, NodeCapacity, QuotaCapacity
from roost_engine.forecast.snapshot import Part


def test_a_quota_has_less_left_for_each_job_until_the_job_ends() -> None:
    quotas = QuotaCapacity([4.0, inf])
    both = ((0, 3.0), (1, 1.0))
    assert quotas.allow(both)
    quotas.take(1, both)
    assert not quotas.allow(both)
    assert quotas.allow(((1, 1.0),))
    assert quotas.give_back(1)
    assert quotas.allow(both)


def test_a_running_job_gives_back_what_it_counts_already() -> None:
    quotas = QuotaCapacity([0.0])
    quotas.note(-1, ((0, 2.0),))
    assert not quotas.allow(((0, 2.0),))
    assert quotas.give_back(-1)
    assert quotas.allow(((0, 2.0),))
    assert not quotas.give_back(-1)
    assert not quotas.give_back(7)


def test_amounts_that_differ_by_rounding_alone_fit() -> None:
    quotas = QuotaCapacity([0.3])
    assert quotas.allow(((0, 0.1 + 0.2),))


def test_the_fullest_nodes_are_taken_first() -> None:
    nodes = NodeCapacity([4, 1, 2])
    part = Part(1, 1, 0b111)
    assert nodes.fullest(part, nodes.able(part)) == ((1, 1),)
    nodes.change(((1, 1),), -1)
    assert nodes.able(part) == 0b101
    assert nodes.able(Part(1, 5, 0b111)) == 0
    assert nodes.change(((1, 9),), 1) == 0b010
    assert nodes.able(Part(1, 9, 0b111)) == 0b010


def test_ends_by_time_limits_are_in_order_and_those_without_one_are_left_out() -> None:
    ends = LimitEnds(is_on=True)
    ends.add(1, 50.0, ((0, 1),))
    ends.add(2, 20.0, ((1, 1),))
    ends.add(3, inf, ((2, 1),))
    assert list(ends) == [(20.0, 2, ((1, 1),)), (50.0, 1, ((0, 1),))]
    ends.remove(2)
    ends.remove(3)
    assert list(ends) == [(50.0, 1, ((0, 1),))]
    off = LimitEnds(is_on=False)
    off.add(1, 50.0, ())
    assert list(off) == []
