"""Hooks start quickly, and the other commands start all the same."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from roost_slurm import start

# What takes as long to import as all that a task prolog does.
DEAR = {
    "argparse",
    "dataclasses",
    "subprocess",
    "shutil",
    "roost_slurm.cli",
    "roost_slurm.text.scontrol",
}
RUN = """
import json, sys
from roost_slurm import start
start.main()
print(json.dumps(sorted(sys.modules)))
"""


def test_a_task_prolog_imports_only_what_it_needs(tmp_path: Path) -> None:
    arguments = ["hook", "task-prolog", "--runtime-folder", str(tmp_path)]
    shown = subprocess.run(
        [sys.executable, "-I", "-c", RUN, *arguments],
        env={"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(json.loads(shown.stdout))
    assert "roost_slurm.hooks.hooks" in loaded
    assert loaded & DEAR == set()


def test_a_hook_gets_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    (tmp_path / "run" / "spool").mkdir(parents=True)
    for options in (["--mps", "--runtime-folder"], ["--runtime-folder"]):
        assert start.run_hook(["prolog-slurmctld", *options, str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "spool" / "events").read_text() == "start 7\n" * 2


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["prolog", "--what"],
        ["epilog", "--runtime-folder"],
        ["epilog", "--runtime-folder", "/"],
    ],
)
def test_wrong_arguments_are_named(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert start.run_hook(arguments) == 0
    assert capsys.readouterr().err.startswith(f"roost-slurm hook: {(['', *arguments])[-1]!r}: want")


def test_the_other_commands_are_there() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "roost_slurm.start", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.startswith("roost-slurm, version ")
