"""docs/status.md: what it names as proof exists, and the plain facts that it states are so."""

import re
from pathlib import Path

import pytest

from roost_engine.cluster.features import COLUMNS
from roost_engine.plugins import Plugins, Policies
from roost_engine.policies import NoPreemption, OpenGate, PriorityOrder
from roost_engine.preemption.network_preemption import NetworkPreemptionConfig
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import job
from roost_sim.catalogue.compositions import POLICIES
from roost_sim.traces.formats import Format
from roost_slurm.limits import MOST_TASKS
from roostd.config.config import Config, Mode

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "status.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (?!What )([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)


def test_every_row_names_what_shows_it() -> None:
    assert len(ROWS) > 30
    assert [what for what, _, shown in ROWS if not re.search(r"`[^`]+`|\]\(", shown)] == []


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:tests|benchmarks)/[^`]*)`", PAGE))))
def test_tests_and_scripts_that_it_names_exist(path: str) -> None:
    assert (ROOT / path).exists()
    if path.endswith(".py") and path.startswith("tests/"):
        assert re.search(r"^(async )?def test_", (ROOT / path).read_text(), re.MULTILINE)


def test_make_targets_that_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):.* ## ", makefile, re.MULTILINE))
    named = set(re.findall(r"`make ([\w-]+)`", PAGE))
    assert len(named) >= 3
    assert named - targets == set()


def test_settings_that_it_names_exist() -> None:
    settings = {"engine": Config().engine, "preemption": Config().preemption}
    for section, key in re.findall(r"`(engine|preemption)\.(\w+)`", PAGE):
        assert hasattr(settings[section], key)


def test_what_is_off_by_default_is_off() -> None:
    policies, config = Policies(), Config()
    assert isinstance(policies.order, PriorityOrder)
    assert isinstance(policies.gate, OpenGate)
    assert isinstance(policies.preemption, NoPreemption)
    assert config.gate.to_core() is None
    assert config.preemption.to_core(config.preempting_partitions()) is None
    assert config.mode is Mode.SHADOW
    for mode in Mode:
        assert f"`{mode.value}`" in PAGE


def test_preemption_estimates_speeds_without_the_delay_gate() -> None:
    page = (ROOT / "docs" / "preemption.md").read_text(encoding="utf-8")
    assert page.lower().count("the delay gate need not be on") == 2
    preemption = NetworkPreemptionConfig(partitions=("main",), moves=True)
    policies = Plugins(preemption=preemption).policies(HeuristicScore())
    assert isinstance(policies.gate, OpenGate)
    assert policies.predictors is not None
    assert policies.predictors.speed.estimate(job("1", gpus=8)).speeds.across_frac < 1.0


def test_counts_are_those_of_the_code() -> None:
    assert len(COLUMNS) == 18
    assert "eighteen columns" in PAGE
    assert len(Format) == 4
    assert "four formats" in PAGE
    assert len(POLICIES) > 50
    assert "more than fifty policies" in PAGE
    assert f"more than {MOST_TASKS:,} tasks" in PAGE
