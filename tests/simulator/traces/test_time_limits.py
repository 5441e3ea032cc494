"""Time limits: Slurm's forms, seconds, minutes, and what is no limit."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_sim.traces.rows import MAX_DURATION_S, Unusable
from roost_sim.traces.time_limits import limit_in_minutes_s, limit_in_s, slurm_limit_s

DAY_S = 86_400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5_400),
        ("90:30", 5_430),
        ("02:03:04", 7_384),
        ("1-02", DAY_S + 7_200),
        ("1-02:03", DAY_S + 7_380),
        ("1-02:03:04", DAY_S + 7_384),
        (" 7-00:00:00 ", 7 * DAY_S),
    ],
)
def test_forms_that_slurm_accepts(text: str, seconds: float) -> None:
    assert slurm_limit_s(text) == seconds


@pytest.mark.parametrize("parse", [slurm_limit_s, limit_in_s, limit_in_minutes_s])
@pytest.mark.parametrize("text", ["UNLIMITED", "unlimited", "INFINITE"])
def test_a_job_without_a_limit(parse: type[float], text: str) -> None:
    assert parse(text) == math.inf


@pytest.mark.parametrize("parse", [slurm_limit_s, limit_in_s, limit_in_minutes_s])
@pytest.mark.parametrize("text", ["", "Partition_Limit", "Unknown", "0"])
def test_an_unknown_limit(parse: type[float], text: str) -> None:
    assert math.isnan(parse(text))


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (slurm_limit_s, "-5"),
        (slurm_limit_s, "1:2:3:4"),
        (slurm_limit_s, "soon"),
        (slurm_limit_s, "1-"),
        (slurm_limit_s, "999999999-00:00:00"),
        (slurm_limit_s, "9" * 5_000),
        (slurm_limit_s, "\u0663:00"),  # a digit, but not Slurm's
        (limit_in_s, "-1"),
        (limit_in_s, "1e300"),
        (limit_in_s, "-inf"),
        (limit_in_s, "1,5"),
        (limit_in_minutes_s, "4294967295"),  # Slurm's INFINITE, as a number
        (limit_in_minutes_s, "-1"),
        (limit_in_minutes_s, "x"),
    ],
)
def test_no_limit_at_all(parse: type[float], text: str) -> None:
    with pytest.raises(Unusable, match="time limit is") as caught:
        parse(text)
    assert len(str(caught.value)) < 120


@given(st.text(max_size=30) | st.from_regex(r"[0-9:\-]{0,20}", fullmatch=True))
def test_any_text_is_a_limit_in_range_unknown_or_refused(text: str) -> None:
    for parse in (slurm_limit_s, limit_in_s, limit_in_minutes_s):
        try:
            seconds = parse(text)
        except Unusable:
            continue
        assert math.isnan(seconds) or seconds == math.inf or 0 < seconds <= MAX_DURATION_S


@given(st.integers(1, MAX_DURATION_S))
def test_what_sacct_prints_reads_back(seconds: int) -> None:
    days, rest = divmod(seconds, DAY_S)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    assert slurm_limit_s(f"{days}-{clock}" if days else clock) == seconds
