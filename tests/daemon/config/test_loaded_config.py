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
