"""job_class: which jobs share a timer."""

from math import nan

import pytest

from roost_engine.prediction.speed.job_class import ALL_CLASSES, Sensitivity, TimerClass


@pytest.mark.parametrize(
    ("gpu_count", "bucket"),
    [(0, 1), (1, 1), (3, 2), (7, 4), (8, 8), (31, 16), (63, 32), (64, 64), (4096, 64)],
)
def test_a_bucket_holds_up_to_below_the_next(gpu_count: int, bucket: int) -> None:
    assert TimerClass.of(gpu_count, 0.5).gpu_bucket == bucket


@pytest.mark.parametrize(
    ("lost_frac", "expected"),
    [
        (0.0, Sensitivity.LOW),
        (0.0499, Sensitivity.LOW),
        (0.05, Sensitivity.MID),
        (0.2499, Sensitivity.MID),
        (0.25, Sensitivity.HIGH),
        (1.0, Sensitivity.HIGH),
        (-3.0, Sensitivity.LOW),
        (nan, Sensitivity.LOW),
    ],
)
def test_sensitivity_by_what_is_lost(lost_frac: float, expected: Sensitivity) -> None:
    assert Sensitivity.of(lost_frac) is expected


def test_names_read_back() -> None:
    assert [TimerClass.parse(str(timers)) for timers in ALL_CLASSES] == list(ALL_CLASSES)
    assert str(TimerClass.of(9, 0.1)) == "8/mid"


@pytest.mark.parametrize("name", ["", "8", "8/", "3/high", "8/HIGH", "8/high/low", "/high"])
def test_other_names_are_no_class(name: str) -> None:
    assert TimerClass.parse(name) is None
