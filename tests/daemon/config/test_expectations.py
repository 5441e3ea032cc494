"""What a right configuration asks for and will not get."""

import subprocess
from pathlib import Path

import pytest

from roostd.config.expectations import unmet
from roostd.config.loaded_config import load_config
from roostd.config.reader import Reader

NOBODY = Reader("slurm", 54321, frozenset({54321}))


def told(tmp_path: Path, text: str, reader: Reader | None = None) -> list[tuple[str, bool]]:
    """What is said of a file, without where it stands, and whether it is a problem."""
    file = tmp_path / "a.yaml"
    file.write_text(f"{text}slurm: {{bin_dir: {programs(tmp_path)}}}\n")
    found = unmet(load_config(file, {}), file, reader)
    return [(e.text.removeprefix(f"{file}:"), e.is_problem) for e in found]


def programs(tmp_path: Path) -> Path:
    for name in ("scontrol", "squeue"):
        (tmp_path / name).touch(0o755)
    return tmp_path


def test_a_file_that_does_what_it_says_is_passed_in_silence(tmp_path: Path) -> None:
    assert told(tmp_path, "mode: enforce\npartitions: {main: {mode: shadow}}\n") == []
    assert told(tmp_path, "partitions: {main: {preemption: false}}\n") == []


def test_a_listed_partition_that_falls_back_to_shadow_is_said(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        "mode: enforce\npreemption: {kind: network}\npartitions: {main: {preemption: true}}\n",
    )
    assert [text for text, _ in found] == [
        "3: partitions.main: the partition is in mode shadow, not enforce as `mode` says, since it"
        " is listed without a mode; cure: partitions.main.mode: enforce",
        "3: partitions.main.preemption: no job is stopped in mode shadow; cure: mode: enforce, or"
        " remove it",
    ]
    assert not any(problem for _, problem in found)


def test_a_variable_that_is_nearly_the_one_of_a_setting_is_said(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"slurm: {{bin_dir: {programs(tmp_path)}}}\n")
    environ = dict.fromkeys(("ROOST_SLURM_LEASES_S", "ROOST_SLURM_LEASE_S", "ROOST_DAEMON"), "30")
    (found,) = unmet(load_config(file, {}), file, None, environ)
    assert not found.is_problem
    assert found.text == (
        "ROOST_SLURM_LEASES_S: no setting has this variable, did you mean ROOST_SLURM_LEASE_S?"
    )


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("policy: {model: /gone/m.onnx}", "policy.model"),
        ("gate: {speeds: /gone/s.csv}", "gate.speeds"),
        (
            "listen: {probes_tls: {certificate: /gone/a, key: /gone/a, client_ca: /gone/a}}",
            "listen.probes_tls.certificate",
        ),
        (
            "listen: {probes_tls: {certificate: /etc/passwd, key: /etc/passwd,"
            " client_ca: /etc/passwd, revoked: /gone/r}}",
            "listen.probes_tls.revoked",
        ),
    ],
)
def test_missing_files_are_problems(tmp_path: Path, setting: str, key: str) -> None:
    found = told(tmp_path, f"{setting}\n")
    assert found[0][0].startswith(f"1: {key}: /gone/")
    assert "No such file or directory" in found[0][0]
    assert found[0][1]


def test_a_file_that_the_service_cannot_read_is_a_problem(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    found = told(tmp_path, "mode: shadow\n", NOBODY)
    assert any("user slurm cannot enter" in text for text, _ in found)
    assert all(problem for _, problem in found)


def test_a_key_of_another_certificate_is_a_problem(tmp_path: Path) -> None:
    common = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -days 9"
    for name in ("a", "b"):
        argv = f"{common} -keyout {tmp_path}/{name}.key -out {tmp_path}/{name}.pem".split()
        subprocess.run(argv, check=True, capture_output=True)
    tls = (
        "listen: {{probes_tls: {{certificate: {0}/a.pem, key: {0}/{1}.key, client_ca: {0}/{2}}}}}\n"
    )
    assert told(tmp_path, tls.format(tmp_path, "a", "b.pem")) == []
    (tmp_path / "revoked.txt").write_text("# none\nAA:BB gpu7\n")
    lists = tls.replace("{2}}}}}", "{2}, revoked: {0}/revoked.txt}}}}")
    ((text, problem),) = told(tmp_path, lists.format(tmp_path, "a", "b.pem"))
    assert text.startswith(
        f"1: listen.probes_tls.revoked: {tmp_path}/revoked.txt:2: want a SHA-256"
    )
    assert problem
    ((text, problem),) = told(tmp_path, tls.format(tmp_path, "b", "b.pem"))
    assert "cannot be used together" in text
    assert problem
    ((text, _),) = told(tmp_path, tls.format(tmp_path, "a", "a.key"))
    assert "no certificates in PEM" in text


def test_a_missing_group_is_a_problem(tmp_path: Path) -> None:
    ((text, problem),) = told(tmp_path, "listen: {operator_group: no-such-group}\n")
    assert text.startswith("1: listen.operator_group: no group no-such-group on this machine")
    assert problem


def test_missing_commands_of_slurm_are_said(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"slurm: {{bin_dir: {tmp_path}/none}}\n")
    (found,) = unmet(load_config(file, {}), file, None)
    assert "no scontrol and no squeue in" in found.text
    assert not found.is_problem
