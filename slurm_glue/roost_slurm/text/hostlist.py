"""Slurm's short form of host names: `n[1-4,7],gpu-[001-010]`."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from roost_slurm.text.limits import MOST_HOSTS

_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\],]+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_NUMBERED = re.compile(r"(.*?)(\d{1,9})", re.ASCII | re.DOTALL)


class HostlistError(ValueError):
    """A text is no host list; carries the text and what is wrong with it."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(f"host list {text[:200]!r}: {problem}")
        self.text, self.problem = text, problem


def expand(text: str) -> list[str]:
    """Return the names in the order written; duplicates stay, as with `scontrol show hostnames`.

    Several brackets in a name count like digits, the last bracket fastest: `r[1-2]n[1-2]`.

    Raises:
        HostlistError: unbalanced brackets, an empty name, a range that runs backwards, or more
            than MOST_HOSTS names.
    """
    hosts: list[str] = []
    for item in _split(text):
        hosts += _expand_item(item, text, MOST_HOSTS - len(hosts))
    return hosts


def compress(hosts: Iterable[str]) -> str:
    """Return the short form of a set of names: sorted, without duplicates.

    Only a number at the end of a name is folded; Slurm refuses text after a bracket.

    Raises:
        HostlistError: a name is empty or holds a bracket, a comma or white space.
    """
    numbers: defaultdict[str, set[str]] = defaultdict(set)
    for host in hosts:
        if not host or re.search(r"[\[\],\s]", host):
            raise HostlistError(host, "not a host name")
        match = _NUMBERED.fullmatch(host)
        prefix, digits = (match[1], match[2]) if match else (host, "")
        numbers[prefix].add(digits)
    return ",".join(item for prefix in sorted(numbers) for item in _fold(prefix, numbers[prefix]))


def _split(text: str) -> Iterator[str]:
    """Cut at the commas outside of brackets."""
    if not text:
        return
    depth, start = 0, 0
    for position, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:position]
            start = position + 1
        if depth not in (0, 1):
            raise HostlistError(text, f"unexpected {character!r} at character {position + 1}")
    if depth:
        raise HostlistError(text, "a bracket is not closed")
    yield text[start:]


def _expand_item(item: str, text: str, max_count: int) -> list[str]:
    if not item.strip() or re.search(r"\s", item):
        raise HostlistError(text, "an empty name, or white space in one")
    # Nothing is built before all of it is counted: a bracket may list thousands of long ranges, and
    # several brackets multiply.
    parts = [
        match[2] if match[1] is None else _ranges_of(match[1], text)
        for match in _PART.finditer(item)
    ]
    count = 1
    for part in parts:
        count *= 1 if isinstance(part, str) else sum(len(span) for span, _ in part)
        if count > max_count:
            raise HostlistError(text, f"more than {MOST_HOSTS} names")
    names = [""]
    for part in parts:
        endings = [part] if isinstance(part, str) else list(_numbers(part))
        names = [name + ending for name in names for ending in endings]
    return names


def _ranges_of(bracket: str, text: str) -> list[tuple[range, int]]:
    """Return what stands in a bracket: the numbers of each range, and their digits' width."""
    spans = []
    for part in bracket.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise HostlistError(text, f"{part[:40]!r} is neither a number nor a range")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise HostlistError(text, f"range {part!r} runs backwards")
        spans.append((range(first, last + 1), len(match[1])))
    return spans


def _numbers(spans: Iterable[tuple[range, int]]) -> Iterator[str]:
    for span, width in spans:
        for number in span:
            yield str(number).zfill(width)


def _fold(prefix: str, digits: set[str]) -> Iterator[str]:
    if "" in digits:
        yield prefix
    ranges = _ranges(digits - {""})
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        yield prefix + ranges[0][0]
    elif ranges:
        folded = ",".join(low if low == high else f"{low}-{high}" for low, high in ranges)
        yield f"{prefix}[{folded}]"


def _ranges(digits: set[str]) -> list[tuple[str, str]]:
    # 099 and 100 belong together although only one of them shows the padding.
    padded = {len(text) for text in digits if len(text) > 1 and text.startswith("0")}

    def order(text: str) -> tuple[int, int]:
        return (len(text) if len(text) in padded else 0, int(text))

    ranges: list[tuple[str, str]] = []
    for text in sorted(digits, key=order):
        if ranges:
            low, high = ranges[-1]
            if text == str(int(high) + 1).zfill(len(low)):
                ranges[-1] = (low, text)
                continue
        ranges.append((text, text))
    return ranges
