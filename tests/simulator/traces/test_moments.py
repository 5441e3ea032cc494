"""Moments of traces: dates with and without a zone, and seconds."""

import pytest

from roost_sim.traces.moments import epoch_of, moment_s
from roost_sim.traces.rows import Unusable


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T10:00:00",
        " 2026-03-01 10:00:00 ",
        "2026-03-01T11:00:00+01:00",
        "20260301T100000",
    ],
)
def test_a_date_and_time_is_utc_unless_it_names_a_zone(text: str) -> None:
    assert epoch_of(text) == moment_s(text) == 1_772_359_200.0


def test_a_number_is_seconds() -> None:
    assert moment_s("17.5") == 17.5


@pytest.mark.parametrize("text", ["", "Unknown", "01.03.2026 10:00", "Ystday 10:00"])
def test_other_texts_are_no_moment(text: str) -> None:
    with pytest.raises(Unusable, match="not a date and time such as"):
        moment_s(text)
