"""docs/status.md: what it names as proof exists, and the plain facts that it states are so."""

import re
from pathlib import Path

import pytest
from tests.daemon.slurm.test_jobs import read_job

from roost_engine.cluster.features import COLUMNS
from roost_engine.domain.actions import Place
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.engine import EngineConfig
from roost_engine.plugins.gate_kinds import gate_numbers
from roost_engine.plugins.plugins import Knowledge, Plugins, Policies
from roost_engine.plugins.stacks import GateKind, OrderKind
from roost_engine.policies.heuristics import NoPreemption, OpenGate, PriorityOrder
from roost_engine.preemption.network_preemption import NetworkPreemptionConfig
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import EngineHarness, job, node, placed, released, shape
from roost_sim.catalogue.compositions import POLICIES
from roost_sim.traces.formats import Format
from roost_slurm.text import squeue
from roost_slurm.text.limits import MOST_TASKS
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
    plugins = config.choice.plugins((), Knowledge())
    assert plugins.preemption is None
    assert "`gate.kind: open` switches it off" in PAGE
    assert plugins.gate == gate_numbers(GateKind.UPLINK_DELAY)
    assert plugins.order is OrderKind.PRIORITY
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


# -- what does not work yet: these tests fail on the day that it does, and the page must change ---


def test_a_job_that_slurm_may_not_start_takes_gpus_from_others_until_it_is_released() -> None:
    config = EngineConfig()
    harness = EngineHarness([node("n1")], config=config)
    harness.queue(job("blocked", gpus=8, priority=1), job("other", gpus=8))
    assert placed(harness.advance(config.start_timeout_s - 0.1)) == {}
    assert placed(harness.advance(config.start_timeout_s)).keys() == {"other"}
    harness.start("other")
    harness.end("other")
    harness.advance(1_000.0)

    actions = tuple(harness.actions)
    tries = [action.job_id for action in actions if isinstance(action, Place)]
    assert tries.count(JobId("blocked")) == config.refusal_limit
    assert released(actions).keys() == {"blocked"}


def test_tiers_and_the_reason_for_waiting_make_no_difference() -> None:
    assert not any("tier" in name.lower() for name in squeue.FIELDS)
    plain = read_job("24.11", "gres", mode=Mode.ENFORCE)
    limited = read_job("24.11", "gres", mode=Mode.ENFORCE, changes={"reason": "QOSMaxGRESPerUser"})
    assert isinstance(limited, JobSpec)
    assert limited == plain


def test_a_job_gets_as_many_gpus_as_it_asked_for_in_every_shape() -> None:
    two_ways = job("1", shape(8), shape(4, 2))
    assert {each.node_count * each.gpus_per_node for each in two_ways.shapes} == {8}
    harness = EngineHarness([node("n1", 4), node("n2", 4), node("n3", 2)])
    (placement,) = placed(harness.queue(two_ways)).values()
    assert placement.gpu_indices == (0, 1, 2, 3)
    assert len(placement.nodes) == 2
