"""The door: an engine with this order tries the picked job and no other."""

from roost_engine.domain.events import Tick
from roost_engine.domain.model import JobId
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import EngineHarness, job, node, placed
from roost_train.environments.picked_order import PickedOrder


def closed() -> tuple[PickedOrder, EngineHarness]:
    order = PickedOrder()
    harness = EngineHarness([node("n1", 4)], policies=Policies(order=order))
    order.attach(harness.engine)
    order.free(False)
    return order, harness


def test_without_a_pick_no_job_is_placed() -> None:
    _, harness = closed()
    assert placed(harness.queue(job("1"), job("2"))) == {}


def test_only_the_picked_job_is_placed_and_the_door_closes_again() -> None:
    order, harness = closed()
    harness.queue(job("1"), job("2"), job("3"))
    order.pick(JobId("2"))
    assert placed(harness.feed(Tick(at_s=1.0))).keys() == {"2"}
    harness.start()
    assert placed(harness.feed(Tick(at_s=2.0))) == {}


def test_a_dropped_pick_is_not_placed() -> None:
    order, harness = closed()
    harness.queue(job("1"))
    order.pick(JobId("1"))
    order.drop_pick()
    assert placed(harness.feed(Tick(at_s=1.0))) == {}


def test_a_free_order_places_every_job_that_fits() -> None:
    order, harness = closed()
    harness.queue(job("1"), job("2"))
    order.free(True)
    assert placed(harness.feed(Tick(at_s=1.0))).keys() == {"1", "2"}
