"""docs/recipes/add-a-gate.md followed to the letter: a gate that makes every job pause."""

import re
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.docs.recipes.recipe import ROOT, files_of, modules_naming
from tests.simulator.journals import WrittenJournal
from tests.simulator.simulated import arrival, cluster, simulate

from roost_engine.domain.actions import Wait
from roost_engine.engine import Engine, EngineConfig
from roost_engine.gate.dally import DallyConfig
from roost_engine.gate.delay import DelayConfig
from roost_engine.plugins.plugins import Plugins, Policies
from roost_engine.plugins.stacks import GateKind
from roost_engine.policies.protocols import Allow, Defer, GateVerdict, Offer, WaitEnded
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import EngineHarness, job, node, placed, waits
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.reader import JournalReader
from roost_sim.catalogue.compositions import find_policy
from roost_sim.catalogue.gates import GATES, GatePart
from roost_sim.information.policy_information import PolicyInformation
from roostd.config.decisions import GateSection

RECIPE = "add-a-gate.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseConfig:
    """The gate's numbers, as a journal keeps them."""

    reads_predictors = False

    pause_s: float = 30.0


class PauseGate:
    """Each job waits for a time before it takes any offer."""

    name = "pause"

    def __init__(self, config: PauseConfig) -> None:
        self._pause_s = config.pause_s

    def decide(self, offer: Offer) -> GateVerdict:
        until_s = offer.at_s - offer.waited_s + self._pause_s
        if until_s <= offer.at_s:
            return Allow()
        return Defer(until_s=until_s, reason="pauses")

    def note(self, outcome: WaitEnded) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginsWithPause(Plugins):
    """Plug-ins after step 3: one more type in the union, one more case of make_gate."""

    gate: DelayConfig | DallyConfig | PauseConfig | None = None  # type: ignore[assignment]

    def _with_gate(self, policies: Policies) -> Policies:
        if isinstance(self.gate, PauseConfig):
            return replace(policies, gate=PauseGate(self.gate))
        return Plugins._with_gate(self, policies)


def policies() -> Policies:
    return PluginsWithPause(gate=PauseConfig()).policies(HeuristicScore())


def test_the_engine_asks_the_gate_and_wakes_when_the_pause_is_over() -> None:
    harness = EngineHarness([node("n1")], policies=policies())

    assert waits(harness.queue(job("1")))["1"].reason == "pauses"
    assert placed(harness.advance(29.0)) == {}
    assert placed(harness.advance(30.0)).keys() == {"1"}
    assert harness.engine.policy_names["gate"] == "pause"
    assert harness.engine.fault_counts["gate"] == 0


def test_a_journal_keeps_the_gate_and_a_replay_decides_the_same(tmp_path: Path) -> None:
    plugins = PluginsWithPause(gate=PauseConfig(pause_s=12.5))
    jobs = (arrival(str(number), number * 3.0, 40.0, gpus=3) for number in range(6))
    with WrittenJournal(tmp_path, plugins=plugins) as journal:
        journal.simulate(cluster(1), *jobs)

    with closing(JournalReader(journal.path)) as reader:
        (run,) = reader.runs()
        steps = list(reader.steps(run))
    told = decode(run.head.plugins, PluginsWithPause)

    assert told == plugins
    assert any(isinstance(action, Wait) for step in steps for action in step.actions)
    engine = Engine(EngineConfig(), told.policies(HeuristicScore()))
    assert [encode(engine.step(step.event)) for step in steps] == [
        encode(step.actions) for step in steps
    ]


def test_a_simulation_runs_the_gate_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = GatePart(source="this test", build=lambda knowledge: PauseGate(PauseConfig()))
    monkeypatch.setitem(GATES, "pause", entry)
    policy = find_policy("fifo+consolidation+pause")
    jobs = [arrival("1", 0.0, 100.0, 8), arrival("2", 10.0, 5.0, 4)]

    outcome = simulate(
        cluster(2),
        *jobs,
        policies=policy.build(PolicyInformation(work_s={}, seed=0)),
        config=policy.engine_config(EngineConfig()),
    )

    assert [result.started_s for result in outcome.jobs] == [30.0, 40.0]


# -- that the recipe is true of the gates that exist ------------------------------------------


def test_a_gate_touches_the_files_of_the_recipe_and_no_others() -> None:
    files = files_of(RECIPE)
    assert len(files) <= 4
    named = modules_naming(r"\bDally(Gate|Config)\b|GateKind\.DALLY|DALLY = \"dally\"  # as in")
    naming = named - {"engine/roost_engine/gate/dally.py"}
    assert naming == {path for path in files if path.endswith(".py")}


def test_one_page_lists_the_kinds() -> None:
    page = (ROOT / "docs" / "delay.md").read_text(encoding="utf-8")
    table = page.partition("### Kinds of gates\n")[2].partition("\n#")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == [
        kind.value for kind in GateKind
    ]
    for path in ("deploy/roostd.yaml", "docs/configuration.md", "docs/roostctl.md"):
        text = (ROOT / path).read_text(encoding="utf-8")
        (line,) = re.findall(r"^.*(?:which gate|\[`gate\.kind`\]).*$", text, re.MULTILINE)
        assert re.search(r"delay\.md", line), path
        assert not re.search(r"\b(delay|dally)\b(?!\.md)", line), path


@pytest.mark.parametrize("kind", GateKind)
def test_every_kind_is_a_gate_of_the_simulator_and_survives_a_journal(kind: GateKind) -> None:
    assert kind.value in GATES
    plugins = Plugins(gate=GateSection().to_core(kind))
    again = decode(encode(plugins), Plugins)
    assert again == plugins
    assert type(again.policies(HeuristicScore()).gate) is type(
        GATES[kind.value].build(PolicyInformation(work_s={}, seed=0))
    )
