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

from roost_engine.domain.errors import ConfigError
from roost_engine.engine import EngineConfig, Passing
from roost_engine.gate.delay import DelayConfig
from roost_engine.gate.timers import TimerConfig
from roost_engine.plugins import Knowledge
from roost_engine.preemption.network_preemption import NetworkPreemptionConfig
from roost_engine.queue.learned_order import LearnedOrderConfig
from roost_engine.stacks import GateKind, PreemptionKind
from roost_formats.yaml.tree import read_tree
from roostd.config.config import (
    Config,
    Mode,
    Partition,
    ProbesTls,
    environment_name,
    leaves,
    load_config,
)
from roostd.config.decisions import (
    EngineSection,
    GateSection,
    OrderSection,
    PlacementSection,
    PreemptionSection,
)
from roostd.config.values import NEVER

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "deploy" / "roostd.yaml"
PAGE = ROOT / "docs" / "configuration.md"


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "roostd.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def problems(tmp_path: Path, text: str, **environ: str) -> list[str]:
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(file, environ)
    return [problem.replace(str(file), "roostd.yaml") for problem in caught.value.problems]


def test_an_empty_file_is_the_defaults_and_the_default_mode_touches_nothing(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, ""), {}).config

    assert config == Config()
    assert config.mode_of("any") is Mode.SHADOW


def test_every_problem_is_in_one_message_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "slurm:\n  leases_s: 3\n  lease_s: '5'\n  poll_interval_s: -1\nmode: sideways\n",
    )

    assert found == [
        "roostd.yaml:2: slurm.leases_s: unknown key, did you mean slurm.lease_s?",
        "roostd.yaml:3: slurm.lease_s: want float, got str",
        "roostd.yaml:4: slurm.poll_interval_s: want > 0, got -1",
        "roostd.yaml:5: mode: want off, shadow, advise or enforce, got sideways",
    ]


def test_the_message_joins_the_problems(tmp_path: Path) -> None:
    file = write(tmp_path, "cluster: 1\npaths: 2\n")

    with pytest.raises(ConfigError) as caught:
        load_config(file, {})

    assert str(caught.value) == (
        f"{file}:1: cluster: want str, got int; {file}:2: paths: want keys with values, got int"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mode: shadow\nmode: off\n", "roostd.yaml:2: mode: stands here and in line 1"),
        ("a: &x {}\nb: *x\n", "roostd.yaml:2: alias *x: write the value out"),
        ("- 1\n", "roostd.yaml:1: want keys with values at the top level"),
        ("mode: [\n", "roostd.yaml:2: not YAML"),
        ("mode: !!python/name:os.system\n", "roostd.yaml:1: mode: want"),
        ("mode: !wild 1\n", "roostd.yaml:1: mode: tag !wild is unknown"),
        ("mode: \x00\n", "roostd.yaml:1: not YAML"),
        ("nonsense: 1\n", "roostd.yaml:1: nonsense: unknown key, known are accounts, cluster"),
        ("listen: {probes: 7471}\n", "roostd.yaml:1: listen.probes: want str, got int"),
        ("listen: {probes: here}\n", "roostd.yaml:1: listen.probes: want HOST:PORT, got here"),
        ("listen: {probes: 'h:70000'}\n", "roostd.yaml:1: listen.probes: want HOST:PORT"),
        (
            "listen: {operator_tcp: '0.0.0.0:1'}\n",
            "roostd.yaml:1: listen.operator_tcp: want an address of this machine",
        ),
        (
            "listen:\n  probes_tls: {key: /k, certificate: /c}\n",
            "roostd.yaml:2: listen.probes_tls.client_ca: missing",
        ),
        ("paths: {state_dir: state}\n", "roostd.yaml:1: paths.state_dir: want an absolute path"),
        ("engine: {patience_s: .inf}\n", "roostd.yaml:1: engine.patience_s: want float, got str"),
        ("partitions: {a: {moode: off}}\n", "did you mean partitions.a.mode?"),
        ("partitions: {a: enforce}\n", "partitions.a: want keys with values, got str"),
        ("slurm: {lease_s: 1}\n", "roostd.yaml:1: slurm.lease_s: want >= 10, got 1"),
        ("slurm: {lease_s: true}\n", "roostd.yaml:1: slurm.lease_s: want float, got bool"),
    ],
)
def test_names_line_and_cure(tmp_path: Path, text: str, problem: str) -> None:
    assert any(found.startswith(problem) or problem in found for found in problems(tmp_path, text))


def test_words_that_yaml_1_1_takes_for_truth_values_stay_words(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "mode: off\ncluster: yes\n"), {}).config

    assert (config.mode, config.cluster) == (Mode.OFF, "yes")


def test_a_file_that_nests_without_end_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    assert "not YAML" in problems(tmp_path, "{a: " * 5000)[0]


def test_a_missing_or_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file"):
        load_config(tmp_path / "none.yaml", {})
    (tmp_path / "latin.yaml").write_bytes(b"cluster: \xe9\n")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 9"):
        load_config(tmp_path / "latin.yaml", {})


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = write(tmp_path, "mode: advise\nslurm: {lease_s: 30}\ncluster: file\n")

    loaded = load_config(
        file, {"ROOST_SLURM_LEASE_S": "40", "ROOST_CLUSTER": "env"}, ["cluster=flag"]
    )

    shown = {key: (value, source) for key, value, source in loaded.rows()}
    assert shown["mode"] == ("advise", f"{file}:1")
    assert shown["slurm.lease_s"] == ("40.0", "ROOST_SLURM_LEASE_S")
    assert shown["cluster"] == ("flag", "--set cluster")
    assert shown["slurm.bin_dir"] == ("/usr/bin", "default")


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    assert problems(tmp_path, "", ROOST_MODE="x") == [
        "ROOST_MODE: mode: want off, shadow, advise or enforce, got x"
    ]


def test_partitions_differ_from_the_default_mode(tmp_path: Path) -> None:
    config = load_config(
        write(tmp_path, "mode: enforce\npartitions:\n  slow: {mode: off}\n"), {}
    ).config

    assert config.mode_of("slow") is Mode.OFF
    assert config.mode_of("main") is Mode.ENFORCE


def test_no_two_settings_share_a_variable() -> None:
    names = [environment_name(path) for path, _ in leaves(Config())]

    assert len(names) == len(set(names))


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
        (EngineSection, EngineConfig, {"hand_over_s", *PINS}),
        (GateSection, DelayConfig, {"timers"}),
        (GateSection, TimerConfig, set()),
        (OrderSection, LearnedOrderConfig, set()),
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
_WRONG_DECISIONS = [
    (section, name, wrong)
    for section, name in _DECISIONS
    for wrong in _WRONG
    if (name, wrong) not in (("moves", "true"), ("reads_limits", "true"))  # switches
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
        ("preemption: {patience_s: soon}\n", "roostd.yaml:1: preemption.patience_s: want float"),
        ("engine: {passing: all}\n", "roostd.yaml:1: engine.passing: want easy or nobody, got all"),
    ],
)
def test_says_what_a_number_of_a_decision_may_be(tmp_path: Path, text: str, problem: str) -> None:
    (found,) = problems(tmp_path, text)
    assert problem in found


def test_nobody_waits_and_nobody_is_stopped_by_default() -> None:
    plugins = Config().choice.plugins((), Knowledge())
    assert (plugins.gate, plugins.preemption) == (None, None)


def test_preemption_is_allowed_by_partition(tmp_path: Path) -> None:
    file = write(tmp_path, "partitions:\n  a: {preemption: true}\n  b: {mode: enforce}\n")
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


@pytest.mark.parametrize(
    "text",
    ["a: " + "[" * 3_000 + "]" * 3_000, "{b: " * 3_000, "- " * 3_000, "[" * 1_000_000],
    ids=["closed lists", "open mappings", "block lists", "a megabyte"],
)
def test_a_file_that_is_nested_too_deeply_is_refused_where_it_gets_too_deep(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[yaml.Event] = []
    parse = yaml.parse

    def count(text: str, Loader: Any) -> Iterator[yaml.Event]:
        for event in parse(text, Loader=Loader):
            read.append(event)
            yield event

    monkeypatch.setattr(yaml, "parse", count)

    tree = read_tree(text)

    assert [problem.text for problem in tree.problems] == ["not YAML: nested deeper than 32 levels"]
    assert len(read) < 200


@pytest.mark.parametrize(
    "address", ["0.0.0.0:7471", "10.0.0.1:7000", "'[::]:7471'", "control1:7471"]
)
def test_a_probe_port_that_is_open_to_others_needs_tls_or_insecure(
    tmp_path: Path, address: str
) -> None:
    (found,) = problems(tmp_path, f"mode: shadow\nlisten:\n  metrics: null\n  probes: {address}\n")

    plain = address.strip("'")
    assert found == (
        f"roostd.yaml:4: listen.probes: {plain} is open to other machines, where any user could"
        " speak for a node; set listen.probes_tls (docs/operations.md), or listen.insecure: true to"
        f" allow it, or 127.0.0.1:{plain.rpartition(':')[2]}"
    )


def test_insecure_may_come_from_file_environment_or_flags(tmp_path: Path) -> None:
    text = "listen: {probes: '10.0.0.1:7000'}\n"
    file = write(tmp_path, text)
    assert load_config(file, {"ROOST_LISTEN_INSECURE": "true"}).config.listen.insecure
    assert load_config(file, {}, ["listen.insecure=true"]).config.listen.insecure
    (found,) = problems(tmp_path, "", ROOST_LISTEN_PROBES="0.0.0.0:1")
    assert found.startswith("ROOST_LISTEN_PROBES: listen.probes: 0.0.0.0:1 is open")


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("{}", "127.0.0.1:7471"),
        ("{insecure: true}", "0.0.0.0:7471"),
        ("{probes_tls: {certificate: /c, key: /k, client_ca: /a}}", "0.0.0.0:7471"),
        ("{probes: '127.0.0.1:1'}", "127.0.0.1:1"),
        ("{probes: '[::1]:1'}", "[::1]:1"),
        ("{probes: 'localhost:1'}", "localhost:1"),
        ("{probes: '127.0.0.1:1', insecure: true}", "127.0.0.1:1"),
        (
            "{probes: '10.0.0.1:1', probes_tls: {certificate: /c, key: /k, client_ca: /a}}",
            "10.0.0.1:1",
        ),
    ],
)
def test_the_probe_port_is_on_loopback_unless_tls_or_insecure(
    tmp_path: Path, listen: str, address: str
) -> None:
    config = load_config(write(tmp_path, f"listen: {listen}\n"), {}).config
    assert config.listen.probe_address == address


def test_a_wrong_tls_section_is_one_problem(tmp_path: Path) -> None:
    text = "listen: {probes: '0.0.0.0:1', probes_tls: {certificate: /c, key: /k}}\n"
    assert problems(tmp_path, text) == ["roostd.yaml:1: listen.probes_tls.client_ca: missing"]
