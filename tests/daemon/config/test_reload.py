"""A reload may not change settings that only a restart can put into effect."""

from pathlib import Path
from typing import Any

import pytest

from roost_engine.domain.errors import ConfigError
from roostd.config.config import Config
from roostd.config.reload import check_unchanged


def config(**settings: Any) -> Config:
    return Config.model_validate(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "enforce"},
        {"partitions": {"main": {"mode": "advise"}}},
        {"slurm": {"lease_s": 30.0, "poll_interval_s": 3.0}},
        {"gate": {"kind": "delay"}},
        {"engine": {"patience_s": 5.0}},
        {"log": {"level": "debug"}},
    ],
)
def test_settings_of_decisions_may_change(settings: dict[str, Any]) -> None:
    check_unchanged(Config(), config(**settings))


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"listen": {"probes": "127.0.0.1:1"}}, "listen"),
        ({"paths": {"state_dir": "/elsewhere"}}, "paths"),
        ({"slurm": {"conf": "/etc/other.conf"}}, "slurm.conf"),
        ({"slurm": {"bin_dir": "/opt/slurm/bin"}}, "slurm.bin_dir"),
        ({"slurm": {"command_timeout_s": 77.0}}, "slurm.command_timeout_s"),
        ({"slurm": {"concurrent_pin_count": 7}}, "slurm.concurrent_pin_count"),
        ({"journal": {"max_age_s": 60.0}}, "journal"),
    ],
)
def test_ports_files_and_command_lines_need_a_restart(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_unchanged(Config(), config(**settings))
    assert caught.value.problems == (f"{key}: changed; restart roostd for it to take effect",)


def test_every_such_setting_is_named_at_once() -> None:
    new = config(journal={"max_age_s": 60.0}, paths={"runtime_dir": str(Path("/run/other"))})
    with pytest.raises(ConfigError) as caught:
        check_unchanged(Config(), new)
    assert [problem.partition(":")[0] for problem in caught.value.problems] == ["paths", "journal"]
