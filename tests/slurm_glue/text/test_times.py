import pytest

from roost_slurm.text.times import parse_limit, parse_time


def test_limits() -> None:
    assert parse_limit("1-02:03:04") == 93784.0
    assert parse_limit("5:00") == 300.0
    assert parse_limit("UNLIMITED") is None
    with pytest.raises(ValueError, match="no time limit"):
        parse_limit("soon")


def test_times() -> None:
    assert parse_time("N/A") is None
    assert parse_time("1970-01-02T00:00:00") == 86400.0
