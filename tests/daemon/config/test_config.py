import re
from collections.abc import Iterator
from dataclasses import fields
from math import inf
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from tests.daemon.config.config_file import problems, write

from roost_engine.engine import EngineConfig, Passing
from roost_engine.gate.delay import DelayConfig
from roost_engine.gate.timers import TimerConfig
from roost_engine.plugins.gate_kinds import gate_numbers
from roost_engine.plugins.plugins import Knowledge
from roost_engine.plugins.stacks import GateKind, PreemptionKind
from roost_engine.preemption.network_preemption import NetworkPreemptionConfig
from roost_engine.queue.learned_order import LearnedOrderConfig
from roostd.config.config import Config, Mode, Partition
from roostd.config.decisions import (
    EngineSection,
    GateSection,
    OrderSection,
    PlacementSection,
    PreemptionSection,
)
from roostd.config.listen import ProbesTls
from roostd.config.loaded_config import leaves, load_config
from roostd.config.values import NEVER

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "deploy" / "roostd.yaml"
PAGE = ROOT / "docs" / "configuration.md"


def test_an_empty_file_is_the_defaults_and_the_default_mode_touches_nothing(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, ""), {}).config

    assert config == Config()
    assert config.mode_of("any") is Mode.SHADOW


def test_partitions_differ_from_the_default_mode(tmp_path: Path) -> None:
    config = load_config(
        write(tmp_path, "mode: enforce\npartitions:\n  slow: {mode: off}\n"), {}
    ).config

    assert config.mode_of("slow") is Mode.OFF
    assert config.mode_of("main") is Mode.ENFORCE


def test_sections_of_decisions_have_the_core_s_numbers_and_defaults() -> None:
    assert Config().choice.engine_config() == EngineConfig()
    assert GateSection().to_core(GateKind.DELAY) == DelayConfig()
    partitions = ("a", "b")
    assert OrderSection().to_core() == LearnedOrderConfig()
    expected = NetworkPreemptionConfig(partitions=partitions)
    assert Config().preemption.to_core(PreemptionKind.NETWORK, ["b", "a"]) == expected


PINS = {
    "standing_pins",
    "standing_pins_are_final",
    "standing_pin_if_overtaken",
    "standing_pin_after_s",
    "standing_pin_margin_s",
}


@pytest.mark.parametrize(
    ("section", "core", "said_elsewhere"),
    [
        # What depends on Slurm: slurm.hand_over_s, slurm.standing_pins, and its release.
        # Only simulations that ask what forwarding gains switch it off.
        (EngineSection, EngineConfig, {"hand_over_s", "wider_after_s", "forwards", *PINS}),
        (GateSection, DelayConfig, {"timers"}),
        (GateSection, TimerConfig, set()),
        # Only simulations of an earlier stack trust predictions with less proof.
        (OrderSection, LearnedOrderConfig, {"trust"}),
        # Which partitions: partitions.NAME.preemption.
        (PreemptionSection, NetworkPreemptionConfig, {"partitions"}),
    ],
)
def test_every_number_of_a_decision_can_be_set(
    section: type[BaseModel], core: type[Any], said_elsewhere: set[str]
) -> None:
    names = {field.name for field in fields(core)}
    assert names - said_elsewhere <= set(section.model_fields)


def test_what_is_set_reaches_the_core(tmp_path: Path) -> None:
    text = "gate: {kind: delay, lease_s: 3600, prior_count: 5}\nengine: {passing: nobody}\n"
    config = load_config(write(tmp_path, text), {}).config
    expected = DelayConfig(lease_s=3600.0, timers=TimerConfig(prior_count=5.0))
    assert config.choice.plugins((), Knowledge()).gate == expected
    assert config.choice.engine_config() == EngineConfig(passing=Passing.NOBODY)


_DECISIONS = [
    *(("order", name) for name in OrderSection.model_fields),
    *(("placement", name) for name in PlacementSection.model_fields),
    *(("gate", name) for name in GateSection.model_fields),
    *(("preemption", name) for name in PreemptionSection.model_fields),
    *(("engine", name) for name in EngineSection.model_fields),
]


_WRONG = ("-1", "{a: 1}", "soon", "true", ".nan", ".inf")
_SWITCH_NAMES = ("earned_trust", "moves", "reads_limits", "waits_for_quiet")
_SWITCHES = [(name, "true") for name in _SWITCH_NAMES]
_WRONG_DECISIONS = [
    (section, name, wrong)
    for section, name in _DECISIONS
    for wrong in _WRONG
    if (name, wrong) not in _SWITCHES
]


@pytest.mark.parametrize(("section", "name", "wrong"), _WRONG_DECISIONS)
def test_a_wrong_number_of_a_decision_is_one_problem_with_line_and_cure(
    tmp_path: Path, section: str, name: str, wrong: str
) -> None:
    text = f"mode: shadow\n{section}:\n  {name}: {wrong}\n"
    (problem,) = problems(tmp_path, text)
    assert re.match(rf"roostd\.yaml:\d: {section}\.{name}.*: (want|unknown key)", problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("gate: {lease_s: 0}\n", "roostd.yaml:1: gate.lease_s: want > 0, got 0"),
        ("gate: {leases_s: 60}\n", "did you mean gate.lease_s?"),
        ("gate: {limit_frac: 1.5}\n", "roostd.yaml:1: gate.limit_frac: want <= 1, got 1.5"),
        ("preemption: {patience_s: soon}\n", "roostd.yaml:1: preemption.patience_s: want a number"),
        ("engine: {passing: all}\n", "roostd.yaml:1: engine.passing: want easy or nobody, got all"),
    ],
)
def test_says_what_a_number_of_a_decision_may_be(tmp_path: Path, text: str, problem: str) -> None:
    (found,) = problems(tmp_path, text)
    assert problem in found


def test_jobs_wait_for_closer_gpus_and_none_is_stopped_by_default() -> None:
    plugins = Config().choice.plugins((), Knowledge())
    assert (plugins.gate, plugins.preemption) == (gate_numbers(GateKind.UPLINK_DELAY), None)


def test_preemption_is_allowed_by_partition(tmp_path: Path) -> None:
    text = "partitions:\n  a: {preemption: true}\n  b: {mode: enforce}\n"
    file = write(tmp_path, f"{text}preemption: {{kind: network}}\n")
    assert load_config(file, {}).config.preempting_partitions() == ["a"]


def test_the_example_file_says_the_defaults_and_names_every_setting() -> None:
    loaded = load_config(EXAMPLE, {})

    named = {key for key, _, source in loaded.rows() if source != "default"}
    every = {".".join(path) for path, _ in leaves(Config())}
    assert every - named == {"partitions"}  # stands there as partitions.debug.mode
    assert "partitions.debug.mode" in named
    assert loaded.config.model_copy(update={"partitions": {}}) == Config()


def _settings(model: type[BaseModel], *path: str) -> Iterator[tuple[str, FieldInfo]]:
    """Yield every setting with its dotted key, those of partitions under partitions.NAME."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _settings(field.annotation, *path, name)
        else:
            yield ".".join((*path, name)), field


SETTINGS = {
    **dict(_settings(Config)),
    **dict(_settings(ProbesTls, "listen", "probes_tls")),
    **dict(_settings(Partition, "partitions", "NAME")),
}


def _default(field: FieldInfo) -> object:
    if field.is_required():
        return "none"
    value = field.get_default(call_default_factory=True)
    if value == inf:
        return NEVER
    return str(value) if isinstance(value, Path) else value


def test_the_page_has_every_setting_with_its_default_and_description() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| (.+?) \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    page = {key: (default.strip("`"), text.replace("`", "")) for key, default, text in rows}

    assert {key: text for key, (_, text) in page.items() if key in SETTINGS} == {
        key: field.description for key, field in SETTINGS.items()
    }
    for key, field in SETTINGS.items():
        shown, value = page[key][0], _default(field)
        assert yaml.safe_load(shown) == (list(value) if isinstance(value, tuple) else value), key


def test_the_comments_of_the_example_file_are_the_descriptions() -> None:
    path: list[str] = []
    found = {}
    for line in EXAMPLE.read_text("utf-8").splitlines():
        match = re.fullmatch(r"( *)(\w+): *([^#]*?) *(?:  # (.*))?", line)
        if match is None:
            continue
        indent, key, value, comment = match.groups()
        path[len(indent) // 2 :] = [key]
        if value or comment:
            found[".".join(path)] = comment

    expected = {key: field.description for key, field in SETTINGS.items()}
    comments = {key: text for key, text in found.items() if key in expected}
    assert comments.pop("mode") == f"{expected['mode']} below"
    unlisted = {"mode"} | {key for key in expected if "NAME" in key or "probes_tls." in key}
    assert comments == {key: text for key, text in expected.items() if key not in unlisted}
