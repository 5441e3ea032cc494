"""Quantities, index lists and foreign text as a person reads them. None prints as "-"."""

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import isfinite

ABSENT = "-"

_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
# Control, format (bidirectional overrides too), surrogate, private, line and paragraph separators:
# characters with which a job's text could move the cursor or imitate other output.
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def safe_text(text: str) -> str:
    r"""Escape what a terminal would obey instead of showing: "\x1b[2J" becomes r"\x1b[2J"."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode()
        if unicodedata.category(char) in _UNSAFE_CATEGORIES
        else char
        for char in text
    )


def or_absent(text: str | None) -> str:
    """Foreign text made safe; "-" for none."""
    return safe_text(text) if text else ABSENT


def duration(seconds: float | None) -> str:
    """Two units are enough: 0.4 s, 12 s, 3 m 20 s, 2 h 05 m, 3 d 04 h."""
    if seconds is None or not isfinite(seconds):
        return ABSENT
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    whole = int(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} m {whole % _MINUTE_S:02} s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S} h {whole % _HOUR_S // _MINUTE_S:02} m"
    return f"{whole // _DAY_S} d {whole % _DAY_S // _HOUR_S:02} h"


def percent(fraction: float | None) -> str:
    """0.434 is 43%."""
    return ABSENT if fraction is None else f"{fraction * 100:.0f}%"


def gibibytes(count_bytes: int | None) -> str:
    """Bytes in GiB, one decimal below ten."""
    if count_bytes is None:
        return ABSENT
    gib = count_bytes / 2**30
    return f"{gib:.1f}" if gib < 9.95 else f"{gib:.0f}"


def rounded(value: float | None, unit: str) -> str:
    """Return a whole number with its unit."""
    return ABSENT if value is None else f"{value:.0f} {unit}"


def mean(values: Iterable[float | None]) -> float | None:
    """Mean of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def index_list(indices: Sequence[int]) -> str:
    """Join runs as Slurm's IDX lists do: 0,1,2,5 becomes 0-2,5."""
    return _index_list(tuple(indices))


@lru_cache(maxsize=1024)
def _index_list(indices: tuple[int, ...]) -> str:
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs) or ABSENT


def node_list(names: Sequence[str]) -> str:
    """Node names, made safe."""
    return ",".join(safe_text(name) for name in names) or ABSENT


def counted(count: int, noun: str) -> str:
    """1 node, 2 nodes."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
