"""Sharing is off by default, and refused where it could not work."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from roost_engine.sharing.pairs import PairSpeed, SharingConfig
from roostd.config.config import Config
from roostd.config.sharing import SharingSection

PAIRS = Path("/etc/roost/pairs.csv")


def test_off_by_default() -> None:
    assert SharingSection().to_core(()) is None


def test_defaults_are_those_of_the_core() -> None:
    pair = PairSpeed("a", "b", 0.9)
    found = SharingSection(enabled=True, pairs=PAIRS).to_core((pair,))
    assert found == SharingConfig(pairs=(pair,))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"sharing": {"enabled": True}}, "without pairs"),
        (
            {
                "sharing": {"enabled": True, "pairs": PAIRS},
                "partitions": {"main": {"preemption": True}},
            },
            "partitions.main.preemption",
        ),
    ],
)
def test_is_refused_where_it_would_share_nothing_or_too_much(
    settings: dict[str, object], problem: str
) -> None:
    with pytest.raises(ValidationError, match=problem):
        Config.model_validate(settings)
