"""Times and time limits as Slurm's commands print them."""

import re
from datetime import UTC, datetime

from roost_slurm.text.limits import LAST_EPOCH_S
from roost_slurm.text.tres import ABSENT

_LIMIT = re.compile(r"(?:(?:(\d{1,20})-)?(\d{1,20}):)?(\d{1,20}):(\d{1,20})", re.ASCII)
_BEYOND_DATETIME = re.compile(r"\d{5,20}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)


def parse_time(text: str) -> float | None:
    """Read a time printed under TZ=UTC0; None where Slurm has none (N/A, Unknown).

    A time after the year 9999, which a user's --begin or time limit may lead to, is LAST_EPOCH_S.
    """
    if text in ABSENT or text == "Unknown":
        return None
    if _BEYOND_DATETIME.fullmatch(text):
        return float(LAST_EPOCH_S)
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def parse_limit(text: str) -> float | None:
    """Read a time limit, `1-00:00:00` or `5:00`; None where there is none.

    Raises:
        ValueError: anything else.
    """
    if text in ("UNLIMITED", "NOT_SET", "Partition_Limit", "INVALID", *ABSENT):
        return None
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time limit")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
