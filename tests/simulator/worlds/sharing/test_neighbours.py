import pytest

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_sim.worlds.sharing.neighbours import STRETCH_PER_PRESSURE, NodeNeighbours

A, B, C = JobId("a"), JobId("b"), JobId("c")
LEFT, RIGHT = NodeName("left"), NodeName("right")


def shares(**gpus: int) -> tuple[NodeShare, ...]:
    return tuple(NodeShare(NodeName(node), tuple(range(count))) for node, count in gpus.items())


def four_gpus_each() -> NodeNeighbours:
    return NodeNeighbours({LEFT: 4, RIGHT: 4})


def test_the_measured_pair_comes_out_as_measured() -> None:
    # ResNet-50 on Philly's servers, exposed 1 - 0.496 of the time: 98.0 images/s alone, 75.6
    # where the rest of its servers is full of its like.
    found = four_gpus_each()
    found.add(A, shares(left=1, right=1), 0.504)
    found.add(B, shares(left=3, right=3), 0.504)
    alone_s, beside_s = 1 / 98.0, 0.496 / 98.0 + 0.504 / 98.0 * found.stretch(A)
    assert beside_s / alone_s == pytest.approx(98.0 / 75.6)


def test_pressure_is_the_mean_duty_of_the_other_gpus() -> None:
    found = four_gpus_each()
    assert found.add(A, shares(left=2), 0.5) == ()
    assert found.stretch(A) == 1.0
    assert found.add(B, shares(left=1), 0.8) == (A,)
    assert found.stretch(A) == pytest.approx(1 + STRETCH_PER_PRESSURE * 0.8 / 2)  # one GPU idles
    assert found.stretch(B) == pytest.approx(1 + STRETCH_PER_PRESSURE * 2 * 0.5 / 3)


def test_a_job_on_two_nodes_waits_for_the_one_under_pressure() -> None:
    found = four_gpus_each()
    found.add(A, shares(left=2, right=2), 0.5)
    found.add(B, shares(right=2), 0.4)
    assert found.stretch(A) == pytest.approx(1 + STRETCH_PER_PRESSURE * 0.4)
    assert found.remove(B) == (A,)
    assert found.stretch(A) == 1.0


def test_a_job_without_duty_is_not_felt_and_feels_nothing() -> None:
    found = four_gpus_each()
    found.add(A, shares(left=2), 0.5)
    assert found.add(B, shares(left=1), 0.0) == ()
    assert found.add(C, shares(left=1), 0.5) == (A,)
    assert found.stretch(B) == 1.0
    assert found.remove(B) == ()
