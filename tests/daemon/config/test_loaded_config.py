"""Reading the configuration: what wins, and all that is wrong in one message."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.daemon.config.config_file import problems, write

from roost_engine.domain.errors import ConfigError
from roost_formats.yaml.tree import read_tree
from roostd.config.config import Config, Mode
from roostd.config.loaded_config import environment_name, leaves, load_config


def test_every_problem_is_in_one_message_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        "slurm:\n  leases_s: 3\n  lease_s: '5'\n  poll_interval_s: -1\nmode: sideways\n",
    )

    assert found == [
        "roostd.yaml:2: slurm.leases_s: unknown key, did you mean slurm.lease_s?",
        "roostd.yaml:3: slurm.lease_s: want a number, got the text '5'",
        "roostd.yaml:4: slurm.poll_interval_s: want >= 0.1, got -1",
        "roostd.yaml:5: mode: want off, shadow, advise or enforce, got sideways",
    ]


def test_the_message_joins_the_problems(tmp_path: Path) -> None:
    file = write(tmp_path, "cluster: 1\npaths: 2\n")

    with pytest.raises(ConfigError) as caught:
        load_config(file, {})

    assert str(caught.value) == (
        f"{file}:1: cluster: want text, got 1; "
        f"{file}:2: paths: want keys with values such as runtime_dir, got 2"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mode: shadow\nmode: off\n", "roostd.yaml:2: mode: stands here and in line 1"),
        ("a: &x {}\nb: *x\n", "roostd.yaml:2: alias *x: write the value out"),
        ("- 1\n", "roostd.yaml:1: want keys with values at the top level"),
        ("mode: [\n", "roostd.yaml:2: not YAML"),
        ("mode: !!python/name:os.system\n", "mode: tag tag:yaml.org,2002:python/name:os.system"),
        ("mode: !wild 1\n", "roostd.yaml:1: mode: tag !wild is unknown"),
        ("mode: \x00\n", "roostd.yaml:1: not YAML"),
        ("nonsense: 1\n", "roostd.yaml:1: nonsense: unknown key, known are accounts, cluster"),
        ("listen: {probes: 7471}\n", "roostd.yaml:1: listen.probes: want text, got 7471"),
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
        ("engine: {patience_s: .inf}\n", "roostd.yaml:1: engine.patience_s: want a number, got"),
        ("partitions: {a: {moode: off}}\n", "did you mean partitions.a.mode?"),
        (
            "partitions: {a: enforce}\n",
            "partitions.a: want keys with values such as mode, got the text 'enforce'",
        ),
        ("gate: open\n", "gate: want keys with values such as kind, got the text 'open'"),
        ("gate.kind: open\n", "roostd.yaml:1: gate.kind: unknown key; write gate: {kind: ...}"),
        ("slurm: {lease_s: 1}\n", "roostd.yaml:1: slurm.lease_s: want >= 10, got 1"),
        ("slurm: {lease_s: true}\n", "roostd.yaml:1: slurm.lease_s: want a number, got true"),
        ("slurm: {poll_interval_s: 1e-9}\n", "slurm.poll_interval_s: want >= 0.1, got 1e-09"),
        ("slurm: {hand_over_s: 1e300}\n", "slurm.hand_over_s: want <= 1e+09, got 1e+300"),
        ("engine: {window_count: 99999999999}\n", "engine.window_count: want <= 1e+09"),
        ("listen: {probes: '::1:7471'}\n", "listen.probes: want [::1]:7471, got ::1:7471"),
        ("listen: {admin_socket: /}\n", "listen.admin_socket: want the path of a file, got /"),
        ("partitions: {'a b': {}}\n", "roostd.yaml:1: partitions.a b: no name of a partition"),
        ("cluster: !!binary aGVsbG8=\n", "cluster: tag tag:yaml.org,2002:binary is unknown"),
    ],
)
def test_names_line_and_cure(tmp_path: Path, text: str, problem: str) -> None:
    assert any(found.startswith(problem) or problem in found for found in problems(tmp_path, text))


def test_words_that_yaml_1_1_takes_for_truth_values_stay_words(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "mode: off\ncluster: yes\n"), {}).config

    assert (config.mode, config.cluster) == (Mode.OFF, "yes")


def test_a_file_that_nests_without_end_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    assert "not YAML" in problems(tmp_path, "{a: " * 5000)[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            'cluster: "a\\nb"\n',
            "roostd.yaml:1: cluster: has a character that cannot be printed, U+000A",
        ),
        ('slurm: {conf: "/a\\0b"}\n', "roostd.yaml:1: slurm.conf: has a character that cannot be"),
        ('qos: ["a", "\\e[31m"]\n', "roostd.yaml:1: qos.1: has a character that cannot be printed"),
        ('"mod\\u202ee": off\n', r"roostd.yaml:1: mod\u202ee: has a character that cannot be"),
    ],
)
def test_what_cannot_be_printed_is_refused_and_shown_on_one_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    (found,) = problems(tmp_path, text)
    assert found.startswith(problem)
    assert found.isprintable()


def test_what_cannot_be_printed_is_refused_in_a_variable_and_a_flag_too(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "", ROOST_CLUSTER="\x1b[31m")
    assert found.startswith("ROOST_CLUSTER: cluster: has a character")
    with pytest.raises(ConfigError, match=r"--set mode: mode: has a character .* U\+0000"):
        load_config(None, {}, ["mode=a\0b"])


def test_a_problem_is_one_line_of_a_bounded_length(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, f"mode: {'x' * 100_000}\n")
    assert len(found) < 1_200
    (found,) = problems(tmp_path, "mode: \x00\n")
    assert found.startswith("roostd.yaml:1: not YAML: unacceptable character #x0000: special")
    assert found.isprintable()


def test_a_missing_or_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file"):
        load_config(tmp_path / "none.yaml", {})
    (tmp_path / "latin.yaml").write_bytes(b"cluster: \xe9\n")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 9"):
        load_config(tmp_path / "latin.yaml", {})


def test_an_unknown_section_of_the_command_line_is_not_put_down_to_a_file() -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(None, {}, ["foo.bar=1"])
    assert str(refused.value).startswith("--set foo.bar: foo: unknown key, known are")


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


def test_no_two_settings_share_a_variable() -> None:
    names = [environment_name(path) for path, _ in leaves(Config())]

    assert len(names) == len(set(names))


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
