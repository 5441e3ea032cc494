"""The version that the probe reports."""

from importlib.metadata import version

from roost_probe.version import VERSION


def test_it_is_that_of_the_distribution() -> None:
    assert version("roost") == VERSION
