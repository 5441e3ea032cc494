"""Sharing is off by default, and refused where it could not work."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from roost_engine.sharing.pairs import PairSpeed, SeparationConfig, SharingConfig
from roostd.config.config import Config
from roostd.config.sharing import SharingSection

PAIRS = Path("/etc/roost/pairs.csv")


def test_off_by_default() -> None:
    assert SharingSection().to_core(()) is None


def test_defaults_are_those_of_the_core() -> None:
    pair = PairSpeed("a", "b", 0.9)
    found = SharingSection(enabled=True, pairs=PAIRS).to_core((pair,))
    assert found == SharingConfig(pairs=(pair,))


def test_is_refused_where_it_would_share_nothing() -> None:
    with pytest.raises(ValidationError, match="without pairs"):
        Config.model_validate({"sharing": {"enabled": True}})


def test_goes_with_partitions_whose_jobs_may_be_stopped() -> None:
    settings = {
        "sharing": {"enabled": True, "pairs": PAIRS},
        "partitions": {"main": {"preemption": True}},
    }
    assert Config.model_validate(settings).partitions["main"].preemption


def test_separation_takes_the_bounds_of_preemption() -> None:
    settings = {
        "sharing": {"enabled": True, "pairs": PAIRS, "separate": True, "separate_after_s": 9.0},
        "partitions": {"main": {"preemption": True}, "other": {}},
        "preemption": {"restart_s": 5.0, "cooldown_s": 60.0, "budget_per_hour": 7},
    }
    config = Config.model_validate(settings)
    found = config.sharing.to_core((), config.preemption, config.preempting_partitions())
    assert found is not None
    assert found.separation == SeparationConfig(
        partitions=("main",), settle_s=9.0, restart_s=5.0, cooldown_s=60.0, budget_per_hour=7
    )


def test_separation_is_refused_where_no_job_may_be_stopped() -> None:
    with pytest.raises(ValidationError, match="separate stops no job"):
        Config.model_validate({"sharing": {"enabled": True, "pairs": PAIRS, "separate": True}})
