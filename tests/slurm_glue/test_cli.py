"""`roost-slurm`: options, exit codes, and what `config` writes."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.slurm_glue.recorded import FIXTURES, RELEASES, read

from roost_slurm import cli

A100 = "NVIDIA A100-SXM4-40GB"


Run = Callable[..., int]


def described(minors: list[int], model: str = A100, **more: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "gpus": [
            {"index": i, "uuid": f"GPU-{i}", "model": model, "minor_number": minor, **more}
            for i, minor in enumerate(minors)
        ],
    }


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "n1.json").write_text(json.dumps(described([0, 1])))

    def command(*options: str) -> int:
        where = ["--out", str(tmp_path / "out")]
        return cli.main(["config", str(tmp_path / "n1.json"), *where, *options])

    return command


def test_writes_a_folder_that_check_then_accepts(run: Run, tmp_path: Path) -> None:
    assert run("--check") == cli.DIFFERENT
    assert not (tmp_path / "out").exists()
    assert run() == 0
    assert run("--check") == 0
    assert run() == 0  # nothing would change
    assert os.access(tmp_path / "out" / "hooks" / "prolog.sh", os.X_OK)


def test_never_overwrites_without_force(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    path = tmp_path / "out" / "gres.conf"
    path.write_text("mine\n")
    (tmp_path / "out" / "nodes.conf").unlink()
    assert run() == cli.BAD_INPUT
    assert str(path) in capsys.readouterr().err
    assert path.read_text() == "mine\n"
    assert not (tmp_path / "out" / "nodes.conf").exists()
    assert run("--force") == 0
    assert run("--check") == 0


def test_check_shows_what_drifted(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    (tmp_path / "n1.json").write_text(json.dumps(described([0, 1, 2])))
    capsys.readouterr()
    assert run("--check") == cli.DIFFERENT
    assert "+NodeName=n1 Name=gpu Type=g2 File=/dev/nvidia2" in capsys.readouterr().out


@pytest.mark.parametrize("pair", ["x", "=a", "a=", f"{A100}=A 100"])
def test_refuses_a_wrong_model_name(run: Run, pair: str) -> None:
    assert run("--model", pair) == cli.BAD_INPUT


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["prolog", "--what"]])
def test_wrong_arguments_do_not_fail_a_hook(arguments: list[str]) -> None:
    assert cli.main(["hook", *arguments]) == 0


def test_a_person_is_told_the_names_of_hooks(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["hook", "--help"])
    assert stop.value.code == 0  # Slurm may call it: no hook fails
    assert "task-prolog" in capsys.readouterr().out


def test_check_names_the_file_that_it_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", "--from", str(tmp_path)]) == cli.BAD_INPUT
    assert capsys.readouterr().err == f"roost-slurm check: {tmp_path}: Is a directory\n"


def test_every_problem_of_the_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(tmp_path / name) for name in ("n1.json", "n2.json")]
    assert cli.main(["config", *files, "--out", str(tmp_path / "out")]) == cli.BAD_INPUT
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"roost-slurm config: {file}: No such file or directory" for file in files]
    assert not (tmp_path / "out").exists()


def test_a_node_of_several_models_is_written_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpus = [{"minor_number": 0, "model": A100}, {"minor_number": 1, "model": "Tesla T4"}]
    (tmp_path / "n1.json").write_text(json.dumps({"gpus": gpus}))
    assert cli.main(["config", str(tmp_path / "n1.json"), "--out", str(tmp_path / "out")]) == 0
    assert "node n1 has several GPU models" in capsys.readouterr().err


def test_a_node_in_mig_mode_is_left_out_and_the_others_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"node": "n1", **described([0], mig_enabled=True)}))
    (tmp_path / "b.json").write_text(json.dumps({"node": "n2", **described([0])}))
    out = tmp_path / "out"
    assert cli.main(["config", str(tmp_path / "a.json"), "--out", str(out)]) == cli.BAD_INPUT
    assert not out.exists()
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    capsys.readouterr()
    assert cli.main(["config", *files, "--out", str(out)]) == 0
    assert "left out" in (told := capsys.readouterr().err)
    assert "a.json: node n1 GPU 0: MIG is enabled" in told
    assert "n1" not in (gres := (out / "gres.conf").read_text())
    assert "NodeName=n2" in gres


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("file", "options", "code"),
    [
        ("show_config.txt", [], cli.MISSING),
        ("show_config_prepared.txt", [], 0),
        ("show_config_prepared.txt", ["--strict", "--models"], 0),
        ("version.txt", [], cli.BAD_INPUT),
        ("gone.txt", [], cli.BAD_INPUT),
    ],
)
def test_check_says_by_its_exit_code_whether_roost_can_work(
    release: str, file: str, options: list[str], code: int
) -> None:
    assert cli.main(["check", "--from", str(FIXTURES / release / file), *options]) == code


def test_strict_makes_a_recommendation_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = read("22.05", "show_config_prepared.txt").replace(",disable_job_shrink", "")
    file = tmp_path / "config.txt"
    file.write_text(text)
    assert cli.main(["check", "--from", str(file)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("recommended: ")
    assert line.endswith("; cure: add disable_job_shrink to SchedulerParameters")
    assert cli.main(["check", "--from", str(file), "--strict"]) == cli.MISSING


def test_check_asks_slurm_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scontrol = tmp_path / "scontrol"
    config = FIXTURES / "24.11" / "show_config_prepared.txt"
    scontrol.write_text(f'#!/bin/sh\n[ "$*" = "show config" ] && cat {config}\n')
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert cli.main(["check"]) == 0
    scontrol.write_text("#!/bin/sh\necho no controller >&2\nexit 1\n")
    assert cli.main(["check"]) == cli.BAD_INPUT
    assert "no controller" in capsys.readouterr().err


def test_a_model_may_contain_an_equals_sign(run: Run, tmp_path: Path) -> None:
    (tmp_path / "n1.json").write_text(json.dumps(described([0], model="GPU A=B")))
    assert run("--model", "GPU A=B=big") == 0
    assert "Feature=big" in (tmp_path / "out" / "nodes.conf").read_text()
