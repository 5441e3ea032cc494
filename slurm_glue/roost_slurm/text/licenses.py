"""Licenses: what `scontrol show licenses` prints, and what a job asks for."""

import re
from dataclasses import dataclass

from roost_slurm.text.limits import whole_number

_REQUEST = re.compile(r"([^\s:,;|]+)(?::(\d{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class License:
    """One license of the cluster.

    Attributes:
        name: "matlab"; "ansys@flex" of a server outside Slurm.
        total_count: all that this cluster may use.
        reserved_count: kept for reservations that are active.
        deficit_count: that users outside Slurm have taken of this cluster's share.
    """

    name: str
    total_count: int
    reserved_count: int = 0
    deficit_count: int = 0

    @property
    def usable_count(self) -> int:
        """Return how many jobs outside reservations may use at the same time."""
        return max(self.total_count - self.reserved_count - self.deficit_count, 0)


def parse_licenses(text: str) -> dict[str, License]:
    """Read `scontrol -o show licenses`, by name; lines that are no licenses are left out."""
    found = {}
    for line in text.split("\n"):
        row = dict(word.partition("=")[::2] for word in line.split())
        try:
            license_ = License(
                name=row["LicenseName"],
                total_count=whole_number(row["Total"]),
                reserved_count=whole_number(row.get("Reserved", "0")),
                deficit_count=whole_number(row.get("LastDeficit", "0")),
            )
        except (KeyError, ValueError):
            continue
        found[license_.name] = license_
    return found


def parse_request(text: str) -> dict[str, int]:
    """Read a job's licenses, `matlab:2,comsol`, into counts by name.

    Returns:
        Nothing where the job has a choice (`a|b`, 25.05 and later): which ones it will take is
        open until it starts.
    """
    if "|" in text:
        return {}
    counts: dict[str, int] = {}
    for item in re.split("[,;]", text):
        match = _REQUEST.fullmatch(item)
        if match is not None:
            counts[match[1]] = counts.get(match[1], 0) + int(match[2] or 1)
    return counts
