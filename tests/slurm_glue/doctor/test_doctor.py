"""The doctor's frame: whether Slurm answers, and what a machine is."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.slurm_glue.conftest import Runtime
from tests.slurm_glue.recorded import RELEASES, read

from roost_slurm.doctor.doctor import (
    Answer,
    Finding,
    Level,
    Looked,
    ThisMachine,
    examine,
    look,
    roles,
)

HOOKS = Path("/etc/slurm/hooks")


@dataclass
class FakeMachine:
    """A machine that gives prepared answers, by the first words of a command."""

    root: Path
    host: str = "vm"
    now_s: float = 1000.0
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def run(self, argv: Sequence[str], stdin: str = "") -> Answer:
        words = " ".join(argv)
        self.asked.append(words)
        found = [a for start, a in self.answers.items() if words.startswith(start)]
        return found[-1] if found else Answer(127, "", f"{argv[0]}: not found")

    def write(self, path: str, text: str = "", mode: int = 0o644) -> Path:
        """Write a file, every folder open."""
        there = self.root / path.lstrip("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_text(text)
        there.chmod(mode)
        for folder in there.parents:
            if folder == self.root:
                break
            folder.chmod(0o755)
        return there

    def looked(self, config: str = "", *, enforces: bool = False) -> Looked:
        """What checks get, for a text of `scontrol show config`."""
        self.answers["scontrol show config"] = Answer(0, config, "")
        found, _ = look(self, Path("/run/roost"), HOOKS)
        return Looked(self, found.config, found.config_text, Path("/run/roost"), HOOKS, enforces)


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


@pytest.mark.parametrize("release", RELEASES)
def test_slurm_answers_with_its_version(machine: FakeMachine, release: str) -> None:
    machine.answers["scontrol show config"] = Answer(0, read(release, "show_config.txt"), "")
    looked, finding = look(machine, Path("/run/roost"), HOOKS)
    assert finding.level is Level.FINE
    assert release in finding.text
    assert looked.config["SelectType"]


def test_slurm_that_does_not_answer_is_a_problem(machine: FakeMachine) -> None:
    machine.answers["scontrol"] = Answer(1, "", "slurm_load_ctl_conf error: Unable to contact")
    looked, finding = look(machine, Path("/run/roost"), HOOKS)
    assert (finding.level, looked.config) == (Level.PROBLEM, {})
    assert "Unable to contact" in finding.text
    assert "start slurmctld" in finding.cure


def test_roles_come_from_slurm_and_from_devices(machine: FakeMachine) -> None:
    config = "SlurmctldHost[0] = vm(127.0.0.1)\n"
    assert roles(machine.looked(config)) == ("controller",)
    assert roles(machine.looked("SlurmctldHost[0] = vm.example.com\n")) == ("controller",)
    machine.write("/dev/nvidia0")
    assert roles(machine.looked(config)) == ("controller", "node")
    machine.host = "other"
    assert roles(machine.looked(config)) == ("node",)


def test_a_heartbeat_tells_whether_anything_is_enforced(machine: FakeMachine) -> None:
    folder = machine.root / "run" / "roost"
    folder.mkdir(parents=True)
    runtime = Runtime(folder)
    for enforce, expected in (((), False), (("main",), True)):
        runtime.beat(enforce=enforce)
        looked, _ = look(machine, Path("/run/roost"), HOOKS)
        assert looked.enforces is expected
        assert (looked.later() is Level.PROBLEM) is expected


def test_findings_are_one_line_with_the_cure(machine: FakeMachine) -> None:
    finding = Finding("munge", Level.PROBLEM, "no socket", "systemctl restart munge")
    assert str(finding) == "problem munge        no socket; cure: systemctl restart munge"
    assert finding.as_row()["level"] == "problem"
    assert examine(machine.looked(), [lambda looked: iter([finding])]) == [finding]


def test_a_command_that_is_missing_or_fails_is_an_answer() -> None:
    here = ThisMachine("vm")
    assert here.run(("no-such-program",)).code == 127
    assert here.run(("cat",), "text").out == "text"
    assert here.run(("sh", "-c", "echo why >&2; exit 3")).complaint == "why"


def test_roosts_programs_are_found_beside_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    told = ThisMachine("vm").run(("sh", "-c", "echo $PATH"))
    assert told.out == f"{Path(sys.executable).parent}:/usr/bin:/bin\n"
