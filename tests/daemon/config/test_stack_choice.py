"""The stack that the configuration names, and the parts that other settings replace."""

from math import inf
from pathlib import Path
from typing import Any

import pytest

from roost_engine.domain.errors import ConfigError
from roost_engine.plugins.gate_kinds import gate_numbers
from roost_engine.plugins.plugins import Knowledge, Plugins
from roost_engine.plugins.stacks import (
    DEFAULT,
    STACKS,
    GateKind,
    OrderKind,
    PlacementKind,
    PreemptionKind,
    Stack,
)
from roost_engine.prediction.service import ServiceIndex
from roost_engine.preemption.rules import LasMovesConfig
from roost_engine.queue.learned_order import Fairness, LearnedOrderConfig
from roostd.config.config import Config
from roostd.config.loaded_config import load_config
from roostd.config.stack_choice import known_stack

SHIPPED = Path(__file__).parents[3] / "deploy" / "roostd.yaml"


def config(**settings: Any) -> Config:
    return Config.model_validate(settings)


def problems(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "roostd.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(file, {})
    return [problem.replace(str(file), "roostd.yaml") for problem in caught.value.problems]


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS.keys())
def test_the_name_of_a_stack_alone_puts_all_of_it_into_effect(stack: Stack) -> None:
    name = stack.name
    assert config(stack=name).choice.in_effect == stack
    assert config(stack=name).choice.in_words == name


def test_without_a_stack_line_roostd_has_the_default_stack() -> None:
    choice = Config().choice
    assert choice.in_effect == DEFAULT
    assert choice.in_effect.model == "builtin"
    assert choice.plugins((), Knowledge()) == Plugins(
        stack="default",
        order=OrderKind.PRIORITY,
        placement=PlacementKind.COMMON_SHAPES,
        gate=gate_numbers(GateKind.UPLINK_DELAY),
        any_gpus=True,
    )


def test_given_parts_replace_those_of_the_stack() -> None:
    choice = config(
        stack="roost", gate={"kind": "open"}, engine={"patience_s": 60.0}, order={"kind": "las"}
    ).choice

    assert choice.in_effect.order is OrderKind.LAS
    assert (choice.in_effect.gate, choice.in_effect.patience_s) == (GateKind.OPEN, 60.0)
    # The order is the stack's own.
    assert choice.in_words == "roost, gate.kind open, engine.patience_s 60"


def test_the_journal_gets_the_choice() -> None:
    chosen = config(stack="roost-makespan", partitions={"a": {"preemption": True}}).choice

    plugins = chosen.plugins((), Knowledge())

    assert (plugins.stack, plugins.order) == ("roost-makespan", OrderKind.S_RANK)
    assert plugins.placement is PlacementKind.COMMON_SHAPES
    assert chosen.engine_config().patience_s == inf


def test_rules_stop_jobs_of_the_partitions_that_allow_it_only() -> None:
    allowed = config(stack="roost", partitions={"a": {"preemption": True}, "b": {}})
    assert allowed.choice.plugins((), Knowledge()).preemption == LasMovesConfig(
        partitions=("a",), lease_s=1_800.0, serves_deferred=True
    )
    assert config(stack="roost").choice.plugins((), Knowledge()).preemption is None


def test_a_stack_that_may_stop_no_job_is_noted() -> None:
    (note,) = config(stack="roost").choice.notes()
    assert "no partition allows it" in note
    for quiet in (Config(), config(stack="roost", partitions={"a": {"preemption": True}})):
        assert not list(quiet.choice.notes())


@pytest.mark.parametrize(
    ("settings", "unused"),
    [
        ({}, {}),
        ({"preemption": {"kind": "network", "patience_s": 5.0}}, {}),
        (
            {"preemption": {"kind": "none", "patience_s": 600.0, "lease_s": 5.0, "qos": ["low"]}},
            {
                "preemption.patience_s": "no effect with kind none; remove it, or set"
                " preemption.kind",
                "preemption.lease_s": "no effect with kind none; remove it, or set preemption.kind",
            },
        ),
        (
            {
                "preemption": {"kind": "none", "cooldown_s": 5.0},
                "sharing": {"enabled": True, "separate": True, "pairs": "/a.csv"},
                "partitions": {"a": {"preemption": True}},
            },
            {},
        ),
        (
            {"gate": {"kind": "open", "longest_s": 900.0, "speeds": "/a.csv"}},
            {
                "gate.longest_s": "no effect with kind open; remove it, or set gate.kind: delay or"
                " uplink-delay"
            },
        ),
        (
            {"gate": {"kind": "delay", "uplink_frac": 0.2, "delay_weight": 2.0}},
            {
                "gate.uplink_frac": "no effect with kind delay; remove it, or set gate.kind:"
                " uplink-delay"
            },
        ),
        ({"gate": {"kind": "uplink-delay", "uplink_frac": 0.2}}, {}),
    ],
)
def test_settings_of_another_kind_are_named(
    settings: dict[str, object], unused: dict[str, str]
) -> None:
    found = config(**settings).choice.unused()
    assert {".".join(path): text for path, text in found} == unused


def test_settings_show_the_part_of_the_stack_and_where_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "roostd.yaml"
    file.write_text("stack: roost\ngate: {kind: open}\norder: {kind: null}\n", encoding="utf-8")

    shown = {key: (value, source) for key, value, source in load_config(file, {}).rows()}

    assert shown["stack"] == ("roost", f"{file}:1")
    assert shown["gate.kind"] == ("open", f"{file}:2")
    assert shown["order.kind"] == ("las", "stack roost")
    assert shown["policy.model"] == ("none", "stack roost")
    assert shown["engine.patience_s"] == ("never", "stack roost")
    assert shown["preemption.lease_s"] == ("1800.0", "preemption.kind las-closer-moves")
    assert shown["gate.lease_s"] == ("null", "default")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("stack: rost\n", "roostd.yaml:1: stack: no stack rost: did you mean roost?"),
        ("mode: off\nstack: 7\n", "roostd.yaml:2: stack: want text, got 7"),
        (
            "order: {kind: lass}\n",
            "roostd.yaml:1: order.kind: want priority, las, s-rank, learned, learned-left or "
            "known-left, got lass",
        ),
        (
            "order:\n  fairness: strict\n",
            "roostd.yaml:2: order.fairness: kind priority does not have it; remove it, or set"
            " order.kind: learned",
        ),
        (
            "order:\n  kind: priority\n  fairness: free\n",
            "roostd.yaml:3: order.fairness: kind priority does not have it; remove it, or set"
            " order.kind: learned",
        ),
        (
            "preemption: {kind: leases, patience_s: 600}\n",
            "roostd.yaml:1: preemption.patience_s: kind leases does not have it; remove it, or set"
            " preemption.kind: network",
        ),
        (
            "order: {kind: learned, band: 50}\n",
            "roostd.yaml:1: order.band: fairness free does not have it; remove it, or set"
            " order.fairness: band",
        ),
        (
            "order: {kind: learned, longest_wait_s: 60}\n",
            "roostd.yaml:1: order.longest_wait_s: kind learned does not have it; remove it, or set"
            " order.kind: las",
        ),
        (
            "order: {kind: learned, fairness: fair}\n",
            "roostd.yaml:1: order.fairness: want strict, band or free, got fair",
        ),
        (
            "order: {kind: learned, fairness: band, band: 0}\n",
            "roostd.yaml:1: order.band: want >= 1, got 0",
        ),
        (
            "preemption: {kind: leases, moves: true}\n",
            "roostd.yaml:1: preemption.moves: kind leases does not have it; remove it, or set"
            " preemption.kind: network",
        ),
        (
            "stack: roost\npreemption:\n  budget_per_hour: 4\n",
            "roostd.yaml:3: preemption.budget_per_hour: kind las-closer-moves does not have it;"
            " remove it, or set preemption.kind: network",
        ),
        (
            "partitions: {a: {preemption: true}}\n",
            "roostd.yaml:1: partitions.a.preemption: stack default stops no job; remove this, or"
            " set preemption.kind: network, or a stack that stops jobs, such as roost",
        ),
        (
            "stack: roost-no-preemption\npartitions:\n  a:\n    preemption: true\n",
            "roostd.yaml:4: partitions.a.preemption: stack roost-no-preemption stops no job; remove"
            " this, or set preemption.kind: network, or a stack that stops jobs, such as roost",
        ),
    ],
)
def test_what_contradicts_the_stack_is_one_problem_with_line_and_cure(
    tmp_path: Path, text: str, problem: str
) -> None:
    assert problems(tmp_path, text) == [problem]


@pytest.mark.parametrize(
    ("text", "bound_s"),
    [
        ("", inf),
        ("stack: roost-no-preemption\n", inf),
        ("stack: roost\n", 30 * 86_400.0),
        ("stack: roost-learned\norder: {longest_wait_s: 86400}\n", 86_400.0),
        ("stack: roost-makespan\norder: {longest_wait_s: never}\n", inf),
    ],
)
def test_only_orders_without_ageing_have_a_longest_wait(
    tmp_path: Path, text: str, bound_s: float
) -> None:
    file = tmp_path / "roostd.yaml"
    file.write_text(text, encoding="utf-8")
    choice = load_config(file, {}).config.choice
    assert choice.plugins((), Knowledge()).longest_wait_s == bound_s


def test_the_shipped_file_takes_another_kind_in_place(tmp_path: Path) -> None:
    shipped = SHIPPED.read_text(encoding="utf-8")
    file = tmp_path / "roostd.yaml"
    sections = shipped.replace("order:\n  kind: null", "order:\n  kind: priority")
    assert sections != shipped
    file.write_text(sections, encoding="utf-8")
    assert load_config(file, {}).config.choice.in_effect.order is OrderKind.PRIORITY

    file.write_text(sections.replace("fairness: free", "fairness: strict"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"order\.fairness: kind priority does not have it"):
        load_config(file, {})


def test_a_default_beside_no_kind_asks_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "roostd.yaml"
    file.write_text("stack: default\norder: {fairness: free}\n", encoding="utf-8")
    assert load_config(file, {}).config.choice.in_effect.order is OrderKind.PRIORITY


def test_a_partition_may_allow_stops_for_sharing_alone(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.csv"
    file = tmp_path / "roostd.yaml"
    file.write_text(
        f"sharing: {{enabled: true, separate: true, pairs: {pairs}}}\n"
        "partitions: {a: {preemption: true}}\n",
        encoding="utf-8",
    )
    assert load_config(file, {}).config.choice.in_effect.preemption is PreemptionKind.NONE


def test_a_name_that_is_like_none_lists_all() -> None:
    with pytest.raises(ValueError, match="no stack x: there are default, default-no-preemption"):
        known_stack("x")


def test_the_numbers_of_the_learned_order_reach_the_engine() -> None:
    order = {"kind": "learned", "index": "risk", "fairness": "band", "band": 7, "ageing": 1.0}
    plugins = config(order=order).choice.plugins((), Knowledge())
    assert plugins.order is OrderKind.LEARNED
    assert plugins.learned_order == LearnedOrderConfig(
        index=ServiceIndex.RISK, fairness=Fairness.BAND, band=7, ageing=1.0
    )


def test_flags_and_environment_choose_a_stack_too() -> None:
    assert load_config(None, {"ROOST_STACK": "roost"}).config.stack == "roost"
    flags = ["stack=roost", "gate.kind=dally"]
    choice = load_config(None, {}, flags).config.choice
    assert choice.in_words == "roost, gate.kind dally"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "gate: {kind: delay}\nengine:\n  gate_longest_s: 3600\n",
            "{file}:3: engine.gate_longest_s: 3600 is not more than gate.longest_s, 86400: raise"
            " it, lower gate.longest_s, or set gate.kind: open",
        ),
        (
            "gate:\n  kind: uplink-delay\n  longest_s: 2592000\n",
            "{file}:3: gate.longest_s: 2592000 is not less than engine.gate_longest_s,"
            " 2592000: lower it, raise engine.gate_longest_s, or set gate.kind: open",
        ),
        ("stack: roost\nengine: {gate_longest_s: 86401}\n", ""),
        ("gate: {kind: dally, longest_s: 9e6}\n", ""),
        ("gate: {kind: open}\nengine: {gate_longest_s: 60}\n", ""),
    ],
)
def test_the_limit_on_every_gate_is_above_that_of_the_gate_in_effect(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "roostd.yaml"
    file.write_text(text, encoding="utf-8")
    if not problem:
        assert load_config(file, {}).config
        return
    with pytest.raises(ConfigError) as caught:
        load_config(file, {})
    assert str(caught.value) == problem.format(file=file)
