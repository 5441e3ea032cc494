"""The plugins and the knowledge in a journal make the same policies again."""

import json
import struct

from roost_engine.domain.config import EngineConfig
from roost_engine.domain.tier import Tier
from roost_engine.engine import Engine
from roost_engine.gate.dally import DallyConfig, DallyGate
from roost_engine.gate.delay import DelayConfig, DelayGate
from roost_engine.job_record import JobRecord, JobState
from roost_engine.placement.tightest_shapes import TightestShapes
from roost_engine.plugins.plugins import Knowledge, Plugins, Policies, knowledge_of
from roost_engine.plugins.stacks import OrderKind, PlacementKind
from roost_engine.policies.heuristics import NoPreemption, OpenGate
from roost_engine.policies.protocols import WaitEnded
from roost_engine.policies.stop_permission import StopPermission
from roost_engine.prediction.speed.speed_table import ModelSpeeds
from roost_engine.prediction.speed.tier_speeds import TierSpeeds
from roost_engine.preemption.network_preemption import (
    NetworkPreemption,
    NetworkPreemptionConfig,
    PreemptionState,
)
from roost_engine.preemption.rules import Leases, LeasesConfig
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import job
from roost_formats.journal.codec import decode, encode

FULL = Plugins(
    gate=DelayConfig(limit_frac=0.1),
    preemption=NetworkPreemptionConfig(partitions=("main",)),
    speeds=(ModelSpeeds(model="bert", gpu_count=8, speeds=TierSpeeds(1.0, 0.5, 0.25)),),
)


def rebuilt(plugins: Plugins) -> Policies:
    return decode(encode(plugins), Plugins).policies(HeuristicScore())


def learn(policies: Policies) -> None:
    """Tell the gate of a job that got one node without a wait, and record one stop."""
    assert isinstance(policies.gate, DelayGate)
    record = JobRecord(spec=job("1", gpus=8), state=JobState.PLACING, queued_s=0.0)
    policies.gate.note(WaitEnded(job=record, waited_s=0.0, tier=Tier.NODE, at_s=5.0))
    assert policies.timers is not None
    policies.timers.pin("8/high", 60.0)
    assert isinstance(policies.preemption, NetworkPreemption)
    policies.preemption.restore(PreemptionState(stops=((5.0, "main"),)))


def test_policies_have_the_names_that_operators_configure() -> None:
    names = Engine(EngineConfig(), rebuilt(FULL)).policy_names
    assert names == {
        "order": "priority",
        "gate": "delay",
        "score": "heuristic",
        "preemption": "network",
        "run-times": "history",
    }
    dally = Engine(EngineConfig(), rebuilt(Plugins(gate=DallyConfig())))
    assert dally.policy_names["gate"] == "dally"


def test_order_placement_and_rules_are_kept_too() -> None:
    plugins = Plugins(
        stack="roost-makespan, gate.kind open",
        order=OrderKind.S_RANK,
        placement=PlacementKind.STRICT,
        preemption=LeasesConfig(partitions=("main",), lease_s=60.0),
    )
    assert decode(encode(plugins), Plugins) == plugins
    policies = rebuilt(plugins)
    assert isinstance(policies.candidates, TightestShapes)
    assert policies.preemption == Leases(60.0, StopPermission(("main",)))
    names = Engine(EngineConfig(), policies).policy_names
    assert (names["order"], names["preemption"]) == ("s-rank", "leases")


def test_an_order_by_achieved_speed_has_predictors_of_its_own() -> None:
    assert rebuilt(Plugins(order=OrderKind.S_RANK)).predictors is not None
    assert rebuilt(Plugins(order=OrderKind.LAS)).predictors is None


def test_a_choice_of_an_earlier_version_has_the_defaults_of_what_it_lacks() -> None:
    knowledge = {"$": "Knowledge", "gate": None, "preemption": None, "predictors": None}
    head: dict[str, object] = {"$": "Plugins", "gate": None, "preemption": None, "speeds": []}
    head["knowledge"] = knowledge
    text = json.dumps(head).encode()
    assert decode(struct.pack("<I", len(text)) + text, Plugins) == Plugins()


def test_the_default_plugins_neither_delay_nor_preempt() -> None:
    policies = rebuilt(Plugins())
    assert isinstance(policies.gate, OpenGate)
    assert isinstance(policies.preemption, NoPreemption)


def test_plugins_survive_the_journal() -> None:
    assert decode(encode(FULL), Plugins) == FULL
    policies = rebuilt(FULL)
    assert isinstance(policies.gate, DelayGate)
    assert policies.gate.config == FULL.gate
    assert isinstance(rebuilt(Plugins(gate=DallyConfig())).gate, DallyGate)


def test_the_gate_gets_the_table_of_speeds() -> None:
    predictors = rebuilt(FULL).predictors
    assert predictors is not None
    assert predictors.speed.estimate(job("1", gpus=8)).confidence_frac == 0.0
    told = Plugins(gate=DelayConfig(), speeds=FULL.speeds).policies(HeuristicScore()).predictors
    assert told is not None
    assert told.speed.estimate(job("1", gpus=8)).speeds == TierSpeeds(1.0, 0.5, 0.25)


def test_knowledge_survives_the_journal() -> None:
    policies = rebuilt(FULL)
    learn(policies)
    knowledge = knowledge_of(policies, Knowledge())
    again = decode(encode(knowledge), Knowledge)
    assert again == knowledge
    later = Plugins(gate=FULL.gate, preemption=FULL.preemption, knowledge=again)
    known = knowledge_of(rebuilt(later), Knowledge())
    assert known == knowledge
    timers = rebuilt(later).timers
    assert timers is not None
    assert [view.pinned_s for view in timers.views(6.0) if view.name == "8/high"] == [60.0]


def test_knowledge_is_kept_while_another_gate_runs() -> None:
    policies = rebuilt(FULL)
    learn(policies)
    knowledge = knowledge_of(policies, Knowledge())
    assert knowledge_of(rebuilt(Plugins()), knowledge) == knowledge


def test_preemption_has_predictors_whatever_the_gate() -> None:
    for gate in (None, DallyConfig(), DelayConfig()):
        policies = rebuilt(Plugins(gate=gate, preemption=FULL.preemption))
        assert policies.predictors is not None
    assert rebuilt(Plugins(gate=DallyConfig())).predictors is None
