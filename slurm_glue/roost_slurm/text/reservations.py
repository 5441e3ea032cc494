"""What `scontrol show reservations` prints: which nodes are kept for some users, and when."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from roost_slurm.text.hostlist import HostlistError, expand
from roost_slurm.text.times import parse_time
from roost_slurm.text.tres import TresError, parse_indices, parse_tres

_PAIR = re.compile(r"(?:^|\s)([A-Za-z]+)=(\S*)")
_CORES = re.compile(r"(?:^|\s)NodeName=(\S+) CoreIDs=([0-9,-]+)")
_ABSENT = frozenset({"", "(null)"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """One reservation; of one that repeats, its present or next window.

    Attributes:
        nodes: ascending; empty where only licenses are reserved.
        cores: how many cores of each node it has, where Slurm says so: it does where that is less
            than all of them, though not always.
        cpu_count: of all its nodes together; None: Slurm does not say.
        gpu_count: likewise, 0 where it has no GPUs of its own. Slurm does not say which they are.
        flags: as Slurm prints them: MAINT, OVERLAP, FLEX, TIME_FLOAT, MAGNETIC, ...
        users, accounts: that may use it; with a minus sign: that may not.
        groups: whose members may use it.
    """

    name: str
    start_epoch_s: float
    end_epoch_s: float
    nodes: tuple[str, ...] = ()
    cores: Mapping[str, int] = field(default_factory=dict)
    cpu_count: int | None = None
    gpu_count: int = 0
    flags: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    @property
    def floats(self) -> bool:
        """Return whether its start stays the same time ahead of now, so that it never begins."""
        return "TIME_FLOAT" in self.flags


def parse_reservations(text: str) -> tuple[Reservation, ...]:
    """Read `scontrol -o show reservations`; lines that are no reservations are left out."""
    lines = (line for line in text.split("\n") if line.startswith("ReservationName="))
    found = (_reservation(line) for line in lines)
    return tuple(one for one in found if one is not None)


def _reservation(line: str) -> Reservation | None:
    row: dict[str, str] = {}
    for key, value in _PAIR.findall(line):
        row.setdefault(key, value)  # a comment, of releases that have one, comes last
    try:
        start_s, end_s = parse_time(row["StartTime"]), parse_time(row["EndTime"])
        nodes = expand("" if row["Nodes"] in _ABSENT else row["Nodes"])
        cores = {name: len(parse_indices(ids)) for name, ids in _CORES.findall(line)}
    except (KeyError, ValueError, HostlistError, TresError):
        return None
    if start_s is None or end_s is None:
        return None
    return Reservation(
        name=row["ReservationName"],
        start_epoch_s=start_s,
        end_epoch_s=end_s,
        nodes=tuple(nodes),
        cores=cores,
        cpu_count=_count(parse_tres(row.get("TRES", "")).get("cpu", "")),
        gpu_count=_count(parse_tres(row.get("TRES", "")).get("gres/gpu", "")) or 0,
        flags=_words(row, "Flags"),
        users=_words(row, "Users"),
        accounts=_words(row, "Accounts"),
        groups=_words(row, "Groups"),
    )


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else None


def _words(row: Mapping[str, str], key: str) -> frozenset[str]:
    text = row.get(key, "")
    return frozenset() if text in _ABSENT else frozenset(filter(None, text.split(",")))
