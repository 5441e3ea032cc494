"""`roost-slurm doctor`: what is wrong with Roost on this machine, and the cure of each.

It looks from end to end, on a controller and on a node, and changes nothing. What matters only
once a partition is enforced is said as advice while none is.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from roost_slurm.command_run import plain_environment
from roost_slurm.hooks import heartbeat
from roost_slurm.text import commands
from roost_slurm.text.scontrol import config_row


class Level(StrEnum):
    """How much a finding matters."""

    FINE = "fine"
    ADVICE = "advice"  # or: a problem as soon as a partition is enforced
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: what was looked at, one word: "munge".
        level: how much it matters.
        text: what was found.
        cure: what to do; "" where all is fine.
    """

    check: str
    level: Level
    text: str
    cure: str = ""

    def __str__(self) -> str:
        cure = f"; cure: {self.cure}" if self.cure else ""
        return f"{self.level:<7} {self.check:<12} {self.text}{cure}"

    def as_row(self) -> dict[str, str]:
        """Return it for JSON."""
        return {key: str(value) for key, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """Its last words."""
        return (self.err.strip() or self.out.strip() or f"exit code {self.code}").split("\n")[-1]


class Machine(Protocol):
    """The machine that is looked at."""

    root: Path  # what stands before every path; "/" but in tests
    host: str  # its short name
    now_s: float  # epoch

    def run(self, argv: Sequence[str], stdin: str = "") -> Answer:
        """Run a command; one that is not there, or hangs, has a code and a complaint too."""
        ...


@dataclass(slots=True)
class ThisMachine:
    """The real one."""

    host: str
    root: Path = Path("/")
    timeout_s: float = 15.0
    now_s: float = field(default_factory=time.time)
    environment: Mapping[str, str] = field(default_factory=lambda: _with_own_programs(os.environ))

    def run(self, argv: Sequence[str], stdin: str = "") -> Answer:
        """See Machine."""
        try:
            done = subprocess.run(
                argv,
                env=self.environment,
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self.timeout_s,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return Answer(127, "", f"{argv[0]}: {error}")
        return Answer(done.returncode, done.stdout, done.stderr)


def _with_own_programs(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return an environment in which Roost's programs are those beside this one."""
    own = str(Path(sys.executable).parent)
    path = f"{own}:{environment.get('PATH', os.defpath)}"
    return plain_environment(environment) | {"PATH": path}


@dataclass(frozen=True, slots=True)
class Looked:
    """What all checks share.

    Attributes:
        machine: where they look.
        config: `scontrol show config`, {} where Slurm does not answer.
        runtime_folder: such as /run/roost.
        hooks_folder: such as /etc/slurm/hooks.
        enforces: whether roostd holds jobs of a partition now.
    """

    machine: Machine
    config: dict[str, str]
    config_text: str
    runtime_folder: Path
    hooks_folder: Path
    enforces: bool

    def at(self, path: Path | str) -> Path:
        """Return where a path lies on the machine."""
        return self.machine.root / str(path).lstrip("/")

    def later(self) -> Level:
        """Return the level of what is needed to enforce."""
        return Level.PROBLEM if self.enforces else Level.ADVICE


Check = Callable[[Looked], Iterator[Finding]]


def look(machine: Machine, runtime_folder: Path, hooks_folder: Path) -> tuple[Looked, Finding]:
    """Ask Slurm for its configuration; the finding says whether it answered."""
    answer = machine.run(commands.show_config())
    row = config_row(answer.out) if answer.code == 0 else {}
    looked = Looked(
        machine,
        row,
        answer.out if row else "",
        runtime_folder,
        hooks_folder,
        _enforces(machine.root / str(runtime_folder / "heartbeat").lstrip("/")),
    )
    if row:
        return looked, Finding("slurm", Level.FINE, f"{row.get('SLURM_VERSION', 'Slurm')} answers")
    cure = "start slurmctld; check slurm.conf, SLURM_CONF and MUNGE"
    return looked, Finding("slurm", Level.PROBLEM, answer.complaint, cure)


def roles(looked: Looked) -> tuple[str, ...]:
    """Return what this machine is: controller, node, both, or neither."""
    hosts = [value for key, value in looked.config.items() if key.startswith("SlurmctldHost")]
    # Slurm takes its host's name with the domain as well as without.
    names = {re.split(r"[(.]", host, maxsplit=1)[0] for host in hosts}
    is_controller = looked.machine.host in names
    is_node = any(looked.at("/dev").glob("nvidia[0-9]*")) or any(
        looked.at(f"{folder}/systemd/system/roost-probe.service").exists()
        for folder in ("/etc", "/usr/lib")
    )
    found = (("controller", is_controller), ("node", is_node))
    return tuple(role for role, holds in found if holds)


def examine(looked: Looked, checks: Sequence[Check]) -> list[Finding]:
    """Return what the checks find."""
    return [finding for check in checks for finding in check(looked)]


def _enforces(path: Path) -> bool:
    try:
        return bool(heartbeat.parse(path.read_text(encoding="ascii")).enforce)
    except (OSError, ValueError):
        return False
