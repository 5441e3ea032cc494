"""Moments as traces write them: a date and time, or seconds."""

from datetime import UTC, datetime

from roost_sim.traces.rows import Unusable


def epoch_of(text: str) -> float:
    """Parse a date and time to seconds since 1970, as UTC unless it names a zone.

    Raises:
        Unusable: the text is not a date and time.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Unusable("not a date and time such as 2020-04-01 00:00:00", text) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def moment_s(text: str) -> float:
    """Parse a number of seconds, or a date and time to seconds since 1970.

    Raises:
        Unusable: the text is neither.
    """
    try:
        return float(text)
    except ValueError:
        return epoch_of(text)
