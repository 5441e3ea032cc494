"""Static orders on a node that holds one job at a time."""

import pytest
from tests.simulator.hand_worked import starts_on_one_node

BUSY = ("1", 0.0, 100.0, 8)


WAITING = (
    ("2", 10.0, 50.0, 6),
    ("3", 20.0, 30.0, 8),
    ("4", 30.0, 40.0, 5),
    ("5", 40.0, 90.0, 4),
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 2 at 100 (2 GPUs left: no job fits), 3 at 150, 4 at 180 (3 left), 5 at 220.
        ("fifo", {"2": 100, "3": 150, "4": 180, "5": 220}),
        # 3 (30 s), then 4 (40 s), then 2 (50 s), then 5.
        ("sjf", {"3": 100, "4": 130, "2": 170, "5": 220}),
        # GPU-seconds: 4 has 200, 3 has 240, 2 has 300, 5 has 360.
        ("ssf", {"4": 100, "3": 140, "2": 170, "5": 220}),
        # 5 (4 GPUs; 4 are left, no job fits), then 4 (5), 2 (6), 3 (8).
        ("smallest-first", {"5": 100, "4": 190, "2": 230, "3": 280}),
        # 3 (8), 2 (6), 4 (5), 5 (4).
        ("largest-first", {"3": 100, "2": 130, "4": 180, "5": 220}),
    ],
)
def test_order_on_a_node_that_holds_one_job_at_a_time(
    name: str, expected: dict[str, float]
) -> None:
    assert starts_on_one_node(name, BUSY, *WAITING) == {"1": 0, **expected}


def test_random_order_depends_on_the_seed_alone() -> None:
    drawn = {
        seed: starts_on_one_node("random-order", BUSY, *WAITING, seed=seed) for seed in range(8)
    }
    assert drawn[0] == starts_on_one_node("random-order", BUSY, *WAITING, seed=0)
    assert len({tuple(sorted(found.items())) for found in drawn.values()}) > 1
