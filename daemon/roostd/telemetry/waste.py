"""What GPU-hours brought nothing: sums by day and user, and which GPUs are halves of linked pairs.

Kinds are seconds of GPUs. A day is a day of UTC, so that no day has 23 or 25 hours.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, date, datetime, timedelta

from roost_engine.domain.topology import LinkMatrix

KEPT_DAYS = 92
MOST_BYTES = 64 << 20  # of the file: three months of a thousand users take less
_SCHEMA = "roost.waste-file/1"
_MOST_S = 1e15  # of a sum, and of the clock: a million GPUs for thirty years
_NO_USER = ""  # the key in the file; users are numbers


@dataclass(slots=True)
class Seconds:
    """GPU-seconds of one day and user.

    Attributes:
        held: of the user's jobs.
        idle: of these, idle for long.
        unknown: of these, without telemetry.
        split: of these, half of a linked pair without need.
        neighbours: of these, what neighbours cost: a job at 80 % of its speed loses a fifth.
        unreachable: free, without a CPU or memory beside it.
        half_free: free, while the other half of the pair is not.
        foreign: free or held, while processes of no job that holds the GPU use its memory.
    """

    held: float = 0.0
    idle: float = 0.0
    unknown: float = 0.0
    split: float = 0.0
    unreachable: float = 0.0
    half_free: float = 0.0
    neighbours: float = 0.0
    foreign: float = 0.0


KINDS = tuple(each.name for each in fields(Seconds))
_FIRST = KINDS[:6]  # in every file


@dataclass(slots=True)
class WasteTally:
    """GPU-seconds by day and user.

    Attributes:
        began_epoch_s: wall clock time at which counting began; None: it has not.
        fault: why earlier sums are lost, or these cannot be stored; empty if neither is so.
    """

    began_epoch_s: float | None = None
    fault: str = ""
    _sums: dict[str, dict[int | None, Seconds]] = field(default_factory=dict)

    def add(self, epoch_s: float, user_id: int | None, kind: str, gpu_s: float) -> None:
        """Add GPU-seconds that ended at a wall clock time; the day of that time gets all of them.

        Args:
            epoch_s: seconds since 1970.
            user_id: None: of no user.
            kind: one of KINDS.
            gpu_s: how much.
        """
        if not gpu_s:
            return
        day = day_of(epoch_s)
        if day not in self._sums:
            self._sums[day] = {}
            self._forget_before(epoch_s)
        sums = self._sums[day].setdefault(user_id, Seconds())
        setattr(sums, kind, getattr(sums, kind) + gpu_s)

    def rows(self, day_count: int = 0) -> Iterator[tuple[str, int | None, Seconds]]:
        """Yield (day, user, sums): the newest day first, of a day the most idle user first.

        Args:
            day_count: the newest so many days that have sums; 0: all.
        """
        days = sorted(self._sums, reverse=True)
        for day in days[: day_count or None]:
            users = self._sums[day].items()
            for user_id, sums in sorted(users, key=lambda item: (-item[1].idle, item[0] or -1)):
                yield day, user_id, sums

    def text(self) -> str:
        """Return the tally as JSON, to be read again by `read_tally`."""
        days = {
            day: {
                _NO_USER if user_id is None else str(user_id): asdict(sums)
                for user_id, sums in users.items()
            }
            for day, users in self._sums.items()
        }
        document = {"schema": _SCHEMA, "began_epoch_s": self.began_epoch_s, "days": days}
        return json.dumps(document, allow_nan=False)

    def _forget_before(self, epoch_s: float) -> None:
        oldest = day_of(epoch_s - KEPT_DAYS * 86_400)
        for day in [day for day in self._sums if day <= oldest]:
            del self._sums[day]


def read_tally(text: str) -> WasteTally:
    """Read what `WasteTally.text` returned.

    Raises:
        one of state_file.DAMAGED: it is something else.
    """
    document = json.loads(text)
    if document["schema"] != _SCHEMA:
        raise ValueError(f"want schema {_SCHEMA}, got {document['schema']!r:.60}")
    began = document["began_epoch_s"]
    tally = WasteTally(None if began is None else _number(began))
    for day, users in document["days"].items():
        if date.fromisoformat(day).isoformat() != day:
            raise ValueError(f"{day} is written in another way")
        tally._sums[day] = {_user(user): _seconds(sums) for user, sums in users.items()}
    return tally


def _seconds(sums: Mapping[str, object]) -> Seconds:
    # Files of earlier versions do not have the kinds that came later.
    given = {kind: sums[kind] if kind in _FIRST else sums.get(kind, 0) for kind in KINDS}
    return Seconds(**{kind: _number(value) for kind, value in given.items()})


def _number(value: object) -> float:
    number = float(str(value))
    if not 0 <= number <= _MOST_S:
        raise ValueError(f"{value!r:.40} is no number of seconds")
    return number


def _user(text: str) -> int | None:
    if text == _NO_USER:
        return None
    user_id = int(text)
    if not 0 <= user_id < 1 << 32:
        raise ValueError(f"{text!r:.40} is no user")
    return user_id


def day_of(epoch_s: float) -> str:
    """Return the day of a wall clock time in UTC: "2026-11-23"."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=epoch_s)).strftime("%Y-%m-%d")


def linked_partners(links: LinkMatrix) -> tuple[int | None, ...]:
    """Return the other half of each GPU's linked pair; None where a GPU is in no pair.

    A pair are two GPUs with NVLink to each other and to no third GPU, as under a bridge.
    """
    near = [
        [b for b, link in enumerate(row) if link is not None and link.nvlink_count]
        for row in links.links
    ]
    return tuple(
        others[0] if len(others) == 1 and near[others[0]] == [gpu] else None
        for gpu, others in enumerate(near)
    )


def split_count(gpu_indices: Sequence[int], partners: Sequence[int | None]) -> int:
    """Return how many GPUs of a job on one node are halves of pairs, beyond what its size needs.

    A job of one GPU splits a pair in any case, and so does one of three on pairs alone.
    """
    held = set(gpu_indices)
    halves = sum(partners[gpu] is not None and partners[gpu] not in held for gpu in held)
    unpaired = sum(partners[gpu] is None for gpu in held)
    return max(halves - (len(held) - unpaired) % 2, 0)


def half_free_count(free: Sequence[int], partners: Sequence[int | None]) -> int:
    """Return how many free GPUs are halves of a pair of which the other half is not free."""
    found = set(free)
    return sum(partners[gpu] is not None and partners[gpu] not in found for gpu in found)
