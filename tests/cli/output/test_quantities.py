"""Durations, sizes, index lists and foreign text as people read them."""

import pytest

from roostctl.output.quantities import (
    counted,
    duration,
    gibibytes,
    index_list,
    mean,
    node_list,
    percent,
    rounded,
    safe_text,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (float("nan"), "-"),
        (float("inf"), "-"),
        (-0.1, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10.0 s"),
        (59.9, "59 s"),
        (200, "3 m 20 s"),
        (7500, "2 h 05 m"),
        (100_000, "1 d 03 h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_index_lists_join_runs() -> None:
    assert index_list([5, 0, 1, 2]) == "0-2,5"
    assert index_list([]) == "-"


def test_unknown_values_do_not_count_as_zero() -> None:
    assert mean([None, 0.5, 1.0]) == 0.75
    assert mean([None]) is None
    assert gibibytes(None) == "-"


def test_escapes_leave_ordinary_text_alone() -> None:
    assert safe_text("Zürich, 東京: 100 %") == "Zürich, 東京: 100 %"
    assert safe_text("a\tb\u2028c\ud800") == r"a\tb\u2028c\ud800"


def test_gibibytes_have_one_decimal_below_ten() -> None:
    assert gibibytes(0) == "0.0"
    assert gibibytes(3 << 29) == "1.5"
    assert gibibytes(80 << 30) == "80"
    assert gibibytes(int(9.96 * 2**30)) == "10"  # not 10.0


def test_percentages_and_units_are_whole_numbers() -> None:
    assert (percent(0.434), percent(0.0), percent(None)) == ("43%", "0%", "-")
    assert (rounded(312.5, "W"), rounded(None, "W")) == ("312 W", "-")


def test_nouns_are_singular_for_one_only() -> None:
    assert [counted(count, "node") for count in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]


def test_node_lists_escape_each_name() -> None:
    assert node_list(["n1", "n\x1b2"]) == r"n1,n\x1b2"
    assert node_list([]) == "-"
