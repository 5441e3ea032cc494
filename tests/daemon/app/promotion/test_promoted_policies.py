"""promoted_policies: what is promoted decides in a fresh engine, unless its file was changed."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.daemon.app.parts import Parts
from tests.formats.models.test_gate import install as install_gate
from tests.formats.models.test_model_order import install

from roost_engine.domain.errors import PolicyError
from roost_engine.gate.dally import DallyConfig
from roost_engine.gate.model_gate import ModelGate
from roost_engine.plugins.plugins import Plugins
from roost_engine.policies.canary import CanaryGate, Slot
from roost_engine.queue.selector import SelectorOrder
from roost_engine.scoring.heuristic import HeuristicScore
from roostd.app.promotion.promoted_policies import (
    configured_with,
    extended,
    identity_of,
    plugins_with,
    score_of,
)
from roostd.config.config import Config
from roostd.config.policy_names import PolicyName, find_policy
from roostd.ops.promotions import Promotion, Promotions

DALLY = Promotion(slot=Slot.GATE, name="dally", share_frac=0.5)


def test_promotions_for_all_are_put_into_the_configuration() -> None:
    faults: dict[Slot, str] = {}
    promoted = {
        Slot.ORDER: Promotion(slot=Slot.ORDER, name="las"),
        Slot.SCORE: Promotion(slot=Slot.SCORE, name="none"),
    }
    found = configured_with(Config(), Promotions(promoted=promoted), faults)
    assert (found.choice.in_effect.order, found.choice.in_effect.model) == ("las", "none")
    assert not faults


def test_a_canary_is_added_to_the_choice() -> None:
    parts = Parts("a")
    parts.state.promotions = Promotions(canary=DALLY)
    plugins, _ = extended(Plugins(), parts.state)
    assert plugins.canary is not None
    assert isinstance(plugins.canary.gate, DallyConfig)
    assert extended(Plugins(), parts.state, has_canary=False)[0].canary is None


def test_a_score_canary_brings_its_policy() -> None:
    parts = Parts("a")
    parts.state.promotions = Promotions(canary=replace(DALLY, slot=Slot.SCORE, name="none"))
    _, models = extended(Plugins(), parts.state)
    assert isinstance(models.canary_score, HeuristicScore)


def test_a_model_that_was_swapped_does_not_decide(tmp_path: Path) -> None:
    path = str(install(tmp_path))
    name = PolicyName(Slot.ORDER, "mine", path)
    mine = Promotion(slot=Slot.ORDER, name="mine", path=path, identity=identity_of(name))
    parts = Parts("a")
    parts.state.promotions = Promotions(promoted={Slot.ORDER: mine})
    plugins, models = extended(Plugins(), parts.state)
    assert plugins.order_model == mine.identity
    assert models.order is not None

    other = replace(mine, identity="onnx:000000000000")
    faults: dict[Slot, str] = {}
    configured_with(Config(), Promotions(promoted={Slot.ORDER: other}), faults)
    assert "onnx:000000000000 was promoted" in faults[Slot.ORDER]
    parts.state.promotions = Promotions(canary=replace(other, share_frac=0.1))
    assert extended(Plugins(), parts.state)[0].canary is None
    assert parts.state.promotion_faults[Slot.ORDER].startswith("canary: ")


def test_another_policy_in_one_slot_leaves_the_others(tmp_path: Path) -> None:
    path = str(install(tmp_path))
    ours, models = plugins_with(PolicyName(Slot.ORDER, "mine", path), Config(), (), Plugins())
    assert models.order is not None
    assert ours.order_model == models.order.name
    gate, _ = plugins_with(PolicyName(Slot.GATE, "dally"), Config(), (), ours)
    assert gate.order_model == ours.order_model
    back, _ = plugins_with(PolicyName(Slot.ORDER, "las"), Config(), (), ours)
    assert (back.order_model, back.order) == ("", "las")


def test_scores_by_name(tmp_path: Path) -> None:
    assert score_of(PolicyName(Slot.SCORE, "none")).name == "heuristic"
    assert score_of(PolicyName(Slot.SCORE, "builtin")).name.startswith("onnx:")
    assert identity_of(PolicyName(Slot.SCORE, "builtin")).startswith("onnx:")
    with pytest.raises(PolicyError):
        score_of(PolicyName(Slot.SCORE, "mine", str(install(tmp_path))))


def test_every_model_that_ships_can_be_named_and_decides(tmp_path: Path) -> None:
    graph = find_policy("score:graph", tmp_path)
    assert identity_of(graph) == score_of(graph).name
    selector = find_policy("order:selector", tmp_path)
    plugins, models = plugins_with(selector, Config(), (), Plugins())
    order = plugins.policies(HeuristicScore(), models=models).order
    assert isinstance(order, SelectorOrder)
    assert plugins.order_model == order.name == identity_of(selector)


def test_a_gate_that_is_a_model_is_promoted_and_may_be_a_canary(tmp_path: Path) -> None:
    named = PolicyName(Slot.GATE, "mine", str(install_gate(tmp_path)))
    mine = Promotion(slot=Slot.GATE, name="mine", path=named.path, identity=identity_of(named))
    parts = Parts("a")
    parts.state.promotions = Promotions(promoted={Slot.GATE: mine})
    plugins, models = extended(Plugins(), parts.state)
    gate = plugins.policies(HeuristicScore(), models=models).gate
    assert isinstance(gate, ModelGate)
    assert gate.name == plugins.gate_model == mine.identity
    back, _ = plugins_with(PolicyName(Slot.GATE, "dally"), Config(), (), plugins)
    assert (back.gate_model, back.gate) == ("", DallyConfig())
    parts.state.promotions = Promotions(canary=replace(mine, share_frac=0.5))
    plugins, models = extended(Plugins(), parts.state)
    split = plugins.policies(HeuristicScore(), models=models).gate
    assert isinstance(split, CanaryGate)
    assert split.name == f"open+{mine.identity}"
