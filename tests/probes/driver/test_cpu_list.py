"""CPU numbers in Linux' list format."""

import pytest

from roost_probe.driver.cpu_list import format_cpu_list


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([0], "0"),
        ([0, 1], "0-1"),
        ([3, 1, 0, 2], "0-3"),
        ([0, 2, 4], "0,2,4"),
        ([5, 5, 6], "5-6"),
        ([*range(16), *range(32, 48), 63], "0-15,32-47,63"),
    ],
)
def test_runs_are_joined(numbers: list[int], text: str) -> None:
    assert format_cpu_list(numbers) == text


def test_reads_any_iterable_once() -> None:
    assert format_cpu_list(number for number in (9, 8, 10)) == "8-10"
