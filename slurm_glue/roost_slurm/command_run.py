"""Runs Slurm's commands for what works without roostd: hooks, timers and people's programs."""

import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Protocol

from roost_slurm.text import commands
from roost_slurm.text.commands import Argv

DEADLINE_S = 5.0  # of a whole run; the hook ends it after 6 s
CURE = "see that slurmctld answers: scontrol ping"
_SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
# Slurm's commands take options from the environment: SLURM_CLUSTERS asks another cluster, and
# SQUEUE_STATES, SQUEUE_PARTITION or SQUEUE_USERS hide jobs.
_OPTIONS = ("SLURM_", "SQUEUE_", "SCONTROL_", "SINFO_")
_KEPT = frozenset({"SLURM_CONF", "SLURM_JWT"})


def plain_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return a person's environment without what changes the answers of Slurm's commands."""
    kept = {k: v for k, v in given.items() if k in _KEPT or not k.startswith(_OPTIONS)}
    return kept | commands.ENVIRONMENT


class RunCommand(Protocol):
    """Runs one of Slurm's commands."""

    def __call__(self, argv: Argv, timeout_s: float) -> str:
        """Return the command's output.

        Raises:
            OSError: it cannot be run.
            subprocess.SubprocessError: it failed, or took longer.
        """
        ...


def run_command(argv: Argv, timeout_s: float) -> str:
    """Run one of Slurm's commands; see RunCommand."""
    env = {"PATH": _SEARCH_PATH, **commands.ENVIRONMENT}
    if conf := os.environ.get("SLURM_CONF"):
        env["SLURM_CONF"] = conf
    return subprocess.run(
        argv,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=True,
    ).stdout


class NoAnswer(subprocess.SubprocessError):
    """Slurm does not answer a person; the text is one line, with the cure."""


def answer_of(argv: Argv, timeout_s: float) -> str:
    """Return what one of Slurm's commands prints, for a person who waits for it.

    Raises:
        OSError: it cannot be run.
        NoAnswer: it failed, or took longer.
    """
    conf, name = os.environ.get("SLURM_CONF"), " ".join(argv[:3])
    if conf and not os.access(conf, os.R_OK):  # Slurm's commands would wait a minute for it
        raise NoAnswer(f"{name}: SLURM_CONF names {conf}, which cannot be read; correct it")
    try:
        done = subprocess.run(
            argv,
            env=plain_environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NoAnswer(f"{name}: no answer in {timeout_s:g} s; {CURE}") from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        why = said[-1].strip() if said else f"exit code {done.returncode}"
        raise NoAnswer(f"{name}: {why}; {CURE}")
    return done.stdout


def before_deadline(run: RunCommand, clock: Callable[[], float]) -> Callable[[Argv], str]:
    """Return what runs commands as `run` does, all of them within DEADLINE_S from now.

    The returned function raises subprocess.TimeoutExpired once the time is up.
    """
    ends_s = clock() + DEADLINE_S

    def ask(argv: Argv) -> str:
        left_s = ends_s - clock()
        if left_s <= 0:
            raise subprocess.TimeoutExpired(argv, DEADLINE_S)
        return run(argv, left_s)

    return ask
