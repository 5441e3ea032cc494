"""What differs between the releases of Slurm that Roost runs on, in one table.

Measured on Debian's 22.05.8, 24.11.5 and 26.05.5 unless a row says otherwise; docs/slurm.md tells
how. A release between two rows behaves like the row before it.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple


class SlurmVersion(NamedTuple):
    """Release and maintenance number: 24.11.5 is (24, 11, 5)."""

    year: int
    month: int
    micro: int = 0

    def __str__(self) -> str:
        return f"{self.year:02d}.{self.month:02d}.{self.micro}"


class UnknownVersion(ValueError):
    """A text names no release of Slurm; carries the text."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:200]!r} names no Slurm release; want e.g. `slurm-wlm 22.05.8`")
        self.text = text


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """How one release behaves.

    Attributes:
        gres_prefix: what TresPerNode= and TresPerJob= want before `gpu:`. 22.05 answers a wrong or
            missing one with exit code 0 and ignores the request.
        can_untype: a job that asked for types may be given an untyped request again. On 22.05 the
            answer is "with and without type identification", and a job that asked for types
            and now asks for others starts only where the GPUs of both are free.
        requeue_pause_s: wait from PENDING after a requeue to the next start on the same node.
            slurmd takes a start in the second of the kill, on 24.11 also a later one, as "already
            killed", and the job fails: without a pause 8 of 20 jobs on 22.05. On 26.05 none of 9
            failed; the pause is there to be as safe.
        shows_exclusive: OverSubscribe distinguishes --exclusive (NO) from the default (OK). Where
            it does not, `scontrol show job` has a field Exclusive.
    """

    gres_prefix: str
    can_untype: bool
    requeue_pause_s: float
    shows_exclusive: bool


TABLE: tuple[tuple[tuple[int, int], Traits], ...] = (
    (
        (22, 5),
        Traits(
            gres_prefix="gres:",
            can_untype=False,
            requeue_pause_s=2.0,
            shows_exclusive=True,
        ),
    ),
    (
        (23, 11),  # read in the source: prefix since 23.02, requests checked as a whole since 23.11
        Traits(
            gres_prefix="gres/",
            can_untype=True,
            requeue_pause_s=2.0,
            shows_exclusive=True,
        ),
    ),
    (
        (26, 5),
        Traits(
            gres_prefix="gres/",
            can_untype=True,
            requeue_pause_s=2.0,
            shows_exclusive=False,
        ),
    ),
)

TRIED = ((22, 5), (24, 11), (26, 5))  # releases on which all tests on Slurm run, oldest first

_VERSION = re.compile(r"\bslurm(?:-wlm)? (\d{2})\.(\d{2})(?:\.(\d+))?")


def parse_version(text: str) -> SlurmVersion:
    """Read what `scontrol --version` or `slurmctld -V` prints.

    Raises:
        UnknownVersion: no such line.
    """
    match = _VERSION.search(text)
    if match is None:
        raise UnknownVersion(text)
    return SlurmVersion(int(match[1]), int(match[2]), int(match[3] or 0))


def traits_of(version: SlurmVersion) -> Traits:
    """Return how a release behaves; one older than the table's first counts as the first."""
    rows = [traits for since, traits in TABLE if since <= (version.year, version.month)]
    return rows[-1] if rows else TABLE[0][1]


def untried(version: SlurmVersion) -> str:
    """Return a sentence on a release that is older or newer than all that were tried, else ""."""
    release = version.year, version.month
    if TRIED[0] <= release <= TRIED[-1]:
        return ""
    side, bound = ("older", TRIED[0]) if release < TRIED[0] else ("newer", TRIED[-1])
    bound_text = "{:02d}.{:02d}".format(*bound)
    return f"Slurm {version} is {side} than {bound_text}, and Roost was not tried on it"
