"""The figures of a report are plain values."""

from roost_formats.report.figures import SAME_START_S, Estimate, GroupPair


def test_an_estimate_that_no_job_shows_has_no_value() -> None:
    assert Estimate() == Estimate(None, None, None)
    assert GroupPair("main", None, None).watched is None
    assert 1.0 < SAME_START_S < 60.0
