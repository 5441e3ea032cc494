"""TopDRL's closest GPUs, on two racks of four machines of four GPUs worked by hand."""

import pytest
from tests.simulator.placing import drawn, of_gpus, put, rule

# Free: 1, 2, 4, 3 in rack 0 (10); 0, 2, 1, 3 in rack 1 (6).
RACKS = ("aaa. aa.. .... a...", "aaaa aa.. aaa. a...")


@pytest.mark.parametrize(
    ("gpu_count", "expected"),
    [
        # One GPU: the fullest machine of the fullest rack.
        (1, {"n6": (3,)}),
        # Up to a machine's GPUs: the tightest machine of the fullest rack that has one.
        (2, {"n5": (2, 3)}),
        (3, {"n7": (1, 2, 3)}),
        (4, {"n2": (0, 1, 2, 3)}),
        # More: the emptiest machine of the emptiest rack (4), then its rack, the fullest first
        # (n0 has 1, of the two of n1 one is wanted).
        (6, {"n0": (3,), "n1": (2,), "n2": (0, 1, 2, 3)}),
        # All ten of rack 0, then the fullest machine elsewhere (n6), then the next in its rack.
        (
            12,
            {"n0": (3,), "n1": (2, 3), "n2": (0, 1, 2, 3), "n3": (1, 2, 3), "n5": (2,), "n6": (3,)},
        ),
    ],
)
def test_closest_gpus(gpu_count: int, expected: dict[str, tuple[int, ...]]) -> None:
    assert put(rule("knn"), drawn(*RACKS), of_gpus(gpu_count, 4)) == expected


def test_a_small_job_that_no_machine_holds_starts_in_the_emptiest_rack() -> None:
    cluster = drawn("aa.. aaa.", "aa.. aa..")
    assert put(rule("knn"), cluster, of_gpus(3, 4)) == {"n2": (2, 3), "n3": (2,)}


def test_the_rule_changes_at_the_gpus_of_the_largest_node() -> None:
    # Five GPUs fit a machine of eight: the tightest one, not the emptiest.
    cluster = drawn("........ aaa.....")
    assert put(rule("knn"), cluster, of_gpus(5)) == {"n1": (3, 4, 5, 6, 7)}
