"""Time limits as traces write them: Slurm's texts, and plain seconds.

A limit is infinite where the job had none, and not a number where the trace does not have it.
"""

import math
import re
from functools import lru_cache

from roost_sim.traces.rows import MAX_DURATION_S, Unusable

# sacct prints [days-]hours:minutes:seconds; sbatch also accepts days-hours, days-hours:minutes,
# minutes and minutes:seconds, and job scripts and site databases keep these (sbatch, --time).
_FORM = re.compile(r"(?:(\d{1,9})-)?(\d{1,9}(?::\d{1,9}){0,2})", re.ASCII)
_UNLIMITED = frozenset({"unlimited", "infinite", "infinity"})
# Partition_Limit: the limit was the partition's, which accounting does not keep.
_UNKNOWN = frozenset(
    {"", "partition_limit", "partition limit", "unknown", "none", "n/a", "not_set"}
)


@lru_cache(maxsize=4096)  # users write few different ones
def slurm_limit_s(text: str) -> float:
    """Return the seconds of a time limit in one of Slurm's forms.

    Examples: `1-02:03:04` is a day, two hours, three minutes and four seconds; `90:30` is 90
    minutes and 30 seconds; `90` is 90 minutes.

    Raises:
        Unusable: the text is no time, or is longer than ten years.
    """
    stripped = text.strip()
    known = _by_word(stripped)
    if known is not None:
        return known
    match = _FORM.fullmatch(stripped)
    if match is None:
        raise Unusable("time limit is not [days-]hours:minutes:seconds", stripped[:40])
    parts = [int(part) for part in match[2].split(":")]
    days = int(match[1] or 0)
    begins_with_hours = match[1] is not None or len(parts) == 3
    hours, minutes, seconds = (*(parts if begins_with_hours else (0, *parts)), 0, 0)[:3]
    return _in_range(float(((days * 24 + hours) * 60 + minutes) * 60 + seconds), stripped)


def limit_in_s(text: str) -> float:
    """Return the seconds of a time limit that a trace gives as a number of seconds.

    Raises:
        Unusable: the text is no number, negative, or longer than ten years.
    """
    stripped = text.strip()
    known = _by_word(stripped)
    if known is not None:
        return known
    try:
        seconds = float(stripped)
    except ValueError:
        raise Unusable("time limit is no number of seconds", stripped[:40]) from None
    if math.isnan(seconds) or seconds == math.inf:
        return seconds
    return _in_range(seconds, stripped)


def limit_in_minutes_s(text: str) -> float:
    """Return the seconds of a time limit that a trace gives in minutes: sacct's TimelimitRaw.

    Raises:
        Unusable: the text is no number, negative, or longer than ten years.
    """
    stripped = text.strip()
    known = _by_word(stripped)
    if known is not None:
        return known
    if not re.fullmatch(r"\d{1,12}", stripped, re.ASCII):
        raise Unusable("time limit is no number of minutes", stripped[:40])
    return _in_range(float(stripped) * 60.0, stripped)


def _by_word(text: str) -> float | None:
    word = text.lower()
    if word in _UNLIMITED:
        return math.inf
    return math.nan if word in _UNKNOWN else None


def _in_range(seconds: float, text: str) -> float:
    """0 is unknown: schedulers write it for a job without a limit of its own."""
    if not 0.0 <= seconds <= MAX_DURATION_S:
        raise Unusable(f"time limit is not 0 to {MAX_DURATION_S} s", text[:40])
    return seconds or math.nan
