"""HiveD's buddy cells, on nodes drawn by hand."""

import pytest
from tests.simulator.placing import drawn, of_gpus, put, rule

WHOLE = tuple(range(8))
# Free: 3 and 8 in rack 0 (11), 2 and 8 in rack 1 (10).
RACKS = ("aaa..aa. ........", "..aaaaaa ........")


@pytest.mark.parametrize(
    ("gpu_count", "expected"),
    [
        (1, {"n2": (0,)}),  # the fullest node
        (2, {"n2": (0, 1)}),
        (3, {"n0": (3, 4, 7)}),  # the fullest that holds three, though in no cell of four
        (4, {"n1": (0, 1, 2, 3)}),
        (8, {"n1": WHOLE}),
        # Pods of 8 and 2: rack 1 holds both and is the fuller one.
        (10, {"n2": (0, 1), "n3": WHOLE}),
        # Two whole nodes: no rack has them.
        (16, {"n1": WHOLE, "n3": WHOLE}),
        (17, {"n1": WHOLE, "n2": (0,), "n3": WHOLE}),
        # The pod of 4 finds no node, though 5 GPUs would be left.
        (20, None),
    ],
)
def test_pods_in_the_fullest_nodes(
    gpu_count: int, expected: dict[str, tuple[int, ...]] | None
) -> None:
    assert put(rule("hived"), drawn(*RACKS), of_gpus(gpu_count)) == expected


@pytest.mark.parametrize(
    ("node", "gpu_count", "expected"),
    [
        ("..a..aaa", 1, (4,)),  # the last of its half; 0 and 1 are a free cell of two
        ("..a..aaa", 2, (0, 1)),  # 3 and 4 are no cell
        ("a.a.....", 2, (4, 5)),  # no cell of two in the first half
        ("a...a...", 3, (1, 2, 3)),
        ("aa......", 2, (2, 3)),  # the other cells of two make a free one of four
    ],
)
def test_large_cells_stay_whole(node: str, gpu_count: int, expected: tuple[int, ...]) -> None:
    assert put(rule("hived"), drawn(node), of_gpus(gpu_count)) == {"n0": expected}
