"""roost_engine.policies.protocols: the default order and gate."""

from random import Random

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobSpec
from roost_engine.domain.tier import Tier
from roost_engine.policies.heuristics import OpenGate, PriorityOrder
from roost_engine.policies.protocols import Allow, KeyedOrder, Offer, QueueView
from roost_engine.testing.builders import job, shape, waiting
from roost_engine.testing.fakes import FixedOrder


def view_of(*jobs: JobSpec) -> QueueView:
    """A queue of some jobs on an empty cluster."""
    return QueueView(jobs=[waiting(spec) for spec in jobs], cluster=Cluster(), at_s=0.0)


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
    ranked = PriorityOrder().rank(view_of(*shuffled))
    assert ranked == [spec.job_id for spec in jobs]


def test_keys_sort_in_the_order_of_rank() -> None:
    order, random = PriorityOrder(), Random(1)
    jobs = [
        job(f"{random.randint(1, 99)}_{number}", priority=random.randint(0, 3))
        for number in range(50)
    ]
    records = [waiting(spec) for spec in jobs]
    by_key = sorted(records, key=lambda record: order.key(record, 0.0))
    assert order.rank(view_of(*jobs)) == [record.job_id for record in by_key]


def test_only_some_orders_have_keys() -> None:
    assert isinstance(PriorityOrder(), KeyedOrder)
    assert not isinstance(FixedOrder(), KeyedOrder)


def test_the_open_gate_allows_everything() -> None:
    offer = Offer(
        job=waiting(job("1")),
        waited_s=0.0,
        shape=shape(1),
        tier=Tier.CLUSTER,
        cluster=Cluster(),
        at_s=0.0,
    )
    assert OpenGate().decide(offer) == Allow()
