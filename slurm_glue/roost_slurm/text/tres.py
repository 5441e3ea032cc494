"""How Slurm writes resources: `gres:gpu:2`, `gres/gpu:a100=2`, `cpu=4,mem=2000M`, `IDX:0-3,6`.

22.05 writes `gres:gpu:2`, later releases `gres/gpu:2`, and --gpus-per-task as `gres/gpu=1`. People
and scontrol's `Gres=` write `gpu:2`. All of them are read alike.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from roost_slurm.text.limits import (
    LONGEST_REQUEST,
    MOST_INDICES,
    MOST_MEMORY_BYTES,
    whole_number,
)

GPU = "gpu"
SEAT_TOKEN = "gputoken"  # where GPUs have second seats: each GPU of a plain request takes one
_KINDS = "gs"  # first letter of a GPU's type, by seat
ABSENT = frozenset({"", "N/A", "(null)", "None"})  # what Slurm prints where a field has no value
_PLAIN = frozenset({"cpu", "mem", "node", "billing", "energy"})
_PREFIX = re.compile(r"^gres[:/]")
# A kind is not a bare number. The look-ahead says so without trying every split of a long text.
_ENTRY = re.compile(
    r"(?P<name>[^:=()]+)(?::(?P<kind>(?=\d*[^:=()\d])[^:=()]+))?"
    r"(?:[:=](?P<count>\d{1,18}[kKmMgG]?))?",
    re.ASCII,
)
_SLOT_KIND = re.compile(r"([gs])(\d{1,3})", re.ASCII)
# Each match begins at an entry's own name, and each part has an end: a search from every letter of
# a long text takes a time that grows with the square of its length.
_INDEXED = re.compile(
    r"(?:(?<=,)|^)gpu:(?:([^,:()]{1,64}):)?\d{1,18}\(IDX:([\d,\-]*|N/A)\)", re.ASCII
)
_SHARED = re.compile(
    r"(?:(?<=,)|^)(?:shard|mps):(?:[^,:()]{1,64}:)?\d{1,18}\(IDX:([\d,\-]*)\)", re.ASCII
)
# From 23.11 on, a part of each GPU of the node, by index: shard:3(2/8,0/8,1/8).
_PARTS = re.compile(
    r"(?:(?<=,)|^)(?:shard|mps):(?:[^,:()]{1,64}:)?\d{1,18}\(([\d\-]{1,18}/\d{1,18}[\d\-/,]*)\)",
    re.ASCII,
)
_BYTES = {"": 1 << 20, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_MEMORY = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)([KMGTP]?)[cn]?", re.ASCII)
_AMOUNT = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)([KMGTP]?)", re.ASCII)
_COUNT_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class TresError(ValueError):
    """A text is no list of resources; carries the text."""

    def __init__(self, text: str, wanted: str) -> None:
        super().__init__(f"{text[:200]!r} is not {wanted}")
        self.text = text


@dataclass(frozen=True, slots=True)
class Gres:
    """One entry of a request: `gpu:a100:2`."""

    name: str
    kind: str | None  # Slurm's Type; None: any
    count: int


def parse_gres(text: str) -> tuple[Gres, ...]:
    """Read a request in any spelling; empty where Slurm says that there is none.

    CPUs and memory are no gres and are passed over: since 24.11 -c3 shows as TresPerTask=cpu=3.

    Raises:
        TresError: an entry has no name, its count is no number, or the text is absurdly long.
    """
    if text in ABSENT:
        return ()
    if len(text) > LONGEST_REQUEST:
        raise TresError(text, f"a request of at most {LONGEST_REQUEST} characters")
    entries = []
    for item in text.split(","):
        if _name(item) in _PLAIN:
            continue
        match = _ENTRY.fullmatch(_PREFIX.sub("", item))
        if match is None:
            raise TresError(text, "a list such as gres/gpu:a100:2")
        entries.append(Gres(match["name"], match["kind"], _count(match["count"])))
    return tuple(entries)


def prefix_of(text: str) -> str:
    """Return what stands before a gres' name in a request field: `gres:`, `gres/` or nothing."""
    matches = filter(None, map(_PREFIX.match, text.split(",")))
    return next((match[0] for match in matches), "")


def without_gres(text: str) -> str:
    """Return a request field without its gres: of `cpu=3,gres/gpu=1` it is `cpu=3`."""
    return ",".join(item for item in text.split(",") if _name(item) in _PLAIN)


def gpu_count(gres: Iterable[Gres]) -> int:
    """Return GPUs that a request adds up to."""
    return sum(entry.count for entry in gres if entry.name == GPU)


def gpu_kinds(gres: Iterable[Gres]) -> frozenset[str]:
    """Types that a request names; a user who names a type has chosen the GPUs."""
    return frozenset(entry.kind for entry in gres if entry.name == GPU and entry.kind)


def beside_gpus(gres: Iterable[Gres]) -> frozenset[str]:
    """Names of the gres other than GPUs."""
    return frozenset(entry.name for entry in gres) - {GPU}


def typed_gpus(
    gpu_indices: Iterable[int],
    *,
    count: int = 1,
    prefix: str = "",
    tokens: Iterable[str] = (),
    seat: int = 0,
) -> str:
    """Write a request for exactly these GPUs: `gpu:g2:1,gpu:g3:1`, with a token `h100:2`.

    Args:
        gpu_indices: gres indices; GPU i has the type `gi`, its second seat `si`.
        count: of each type: 1 in a per-node request, the node count in a per-job request.
        prefix: `gres:` or `gres/` where the field wants one.
        tokens: count-only gres of which each GPU takes one.
        seat: 0: the GPUs themselves; 1: their second seats.
    """
    kind = _KINDS[seat]
    gpus = [f"{prefix}gpu:{kind}{index}:{count}" for index in sorted(gpu_indices)]
    total = len(gpus) * count
    return ",".join([*gpus, *(f"{prefix}{token}:{total}" for token in sorted(tokens))])


def typed_indices(gres: Iterable[Gres]) -> tuple[int, ...]:
    """Return the inverse of typed_gpus: the GPU indices that a request names, ascending."""
    matches = (_SLOT_KIND.fullmatch(kind) for kind in gpu_kinds(gres))
    return tuple(sorted({int(match[2]) for match in matches if match}))


def typed_seat(gres: Iterable[Gres]) -> int:
    """Return the seat that a request names: 1 where it names second seats, else 0."""
    return int(any(map(is_seat, gpu_kinds(gres))))


def is_seat(kind: str | None) -> bool:
    """Return whether a type of GPU is a second seat: s0, s1, ..."""
    match = _SLOT_KIND.fullmatch(kind or "")
    return match is not None and match[1] == _KINDS[1]


def allocated_gpus(text: str) -> tuple[int, ...]:
    """Read which GPUs `GRES=` or `GresUsed=` names: `gpu:g0:1(IDX:0),gpu:g5:0(IDX:)` is (0,).

    The second seat of GPU 3 of 8 is `gpu:s3:1(IDX:11)`: that GPU.

    Raises:
        TresError: the indices of a GPU cannot be read.
    """
    found: set[int] = set()
    for match in _INDEXED.finditer(text):
        if match[2] not in ("", "N/A"):
            found.update((int(match[1][1:]),) if is_seat(match[1]) else parse_indices(match[2]))
    return tuple(sorted(found))


def shared_gpus(text: str) -> tuple[int, ...]:
    """Read the GPUs of which `GRES=` names parts.

    `shard:2(IDX:1),mps:50(IDX:3)` is (1, 3), and so is `shard:9(0/8,8/8,0/8,1/8)`: at the place of
    each index the parts that are held, of those that there are; `-` is no part.

    Raises:
        TresError: the indices of a GPU cannot be read.
    """
    found = {index for match in _SHARED.finditer(text) for index in parse_indices(match[1])}
    for match in _PARTS.finditer(text):
        held_counts = [part.partition("/")[0] for part in match[1].split(",")]
        found.update(index for index, held in enumerate(held_counts) if held.strip("0-") != "")
    return tuple(sorted(found))


def allocated_seat(text: str) -> int:
    """Return the seat that `GRES=` names: 1 where all of its GPUs are second seats, else 0."""
    kinds = [match[1] for match in _INDEXED.finditer(text) if match[2] not in ("", "N/A")]
    return int(bool(kinds) and all(map(is_seat, kinds)))


def parse_indices(text: str) -> tuple[int, ...]:
    """Read `0-3,6`.

    Raises:
        TresError: not a list of numbers and ascending ranges, or absurdly long.
    """
    spans: list[range] = []
    count = 0
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        try:
            low = whole_number(first)
            high = whole_number(last) if dash else low
        except ValueError as error:
            raise TresError(text, "a list of indices such as 0-3,6") from error
        count += high + 1 - low
        if high < low or count > MOST_INDICES:
            raise TresError(text, f"a list of ascending ranges of at most {MOST_INDICES} indices")
        spans.append(range(low, high + 1))
    return tuple(index for span in spans for index in span)


def parse_tres(text: str) -> dict[str, str]:
    """Read `cpu=4,mem=2000M,node=1` into a dictionary; empty where there is none."""
    if text in ABSENT:
        return {}
    pairs = (item.partition("=") for item in text.split(","))
    return {name: value for name, equals, value in pairs if equals}


@lru_cache(maxsize=1_000)
def parse_counts(text: str) -> Mapping[str, float]:
    """Read `cpu=4,mem=2000M,gres/gpu=2` into amounts by TRES name, memory in MiB as Slurm counts.

    What is no number is left out. The result is cached: thousands of jobs ask for the same.
    """
    counts: dict[str, float] = {}
    for name, value in parse_tres(text).items():
        match = _AMOUNT.fullmatch(value)
        if match is not None:
            unit = match[2] or ("M" if name == "mem" else "")
            scale = _BYTES[unit] if unit else 1
            counts[name] = float(match[1]) * scale / (_BYTES["M"] if name == "mem" else 1)
    return MappingProxyType(counts)


def parse_memory_bytes(text: str) -> int:
    """Read Slurm's memory sizes, MiB when no unit is written: `2000`, `500M`, `1.50G`, `100Mc`.

    Raises:
        TresError: anything else, or more than MOST_MEMORY_BYTES.
    """
    match = _MEMORY.fullmatch(text)
    size_bytes = float(match[1]) * _BYTES[match[2]] if match else 0.0
    if match is None or size_bytes > MOST_MEMORY_BYTES:
        raise TresError(text, "a memory size such as 500M")
    return int(size_bytes)


def _name(item: str) -> str:
    return re.split("[:=]", item, maxsplit=1)[0]


def _count(text: str | None) -> int:
    if text is None:
        return 1
    unit = _COUNT_UNITS.get(text[-1].lower())
    return int(text[:-1]) * unit if unit else int(text)
