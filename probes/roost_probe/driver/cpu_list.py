"""Linux list format: "0-15,32-47"."""

from collections.abc import Iterable


def format_cpu_list(numbers: Iterable[int]) -> str:
    """Write numbers as ranges, ascending. Empty for none."""
    ranges = list[list[int]]()
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in ranges)
