import os
import subprocess
from collections.abc import Iterator

import pytest

from roost_slurm.command_run import (
    DEADLINE_S,
    NoAnswer,
    answer_of,
    before_deadline,
    plain_environment,
    run_command,
)


def times(*seconds: float) -> Iterator[float]:
    return iter(seconds)


def test_a_command_has_the_time_that_earlier_ones_have_left() -> None:
    asked = list[tuple[tuple[str, ...], float]]()

    def run(argv: tuple[str, ...], timeout_s: float) -> str:
        asked.append((argv, timeout_s))
        return "done"

    clock = times(100.0, 100.0, 102.0)
    ask = before_deadline(run, lambda: next(clock))
    assert [ask(("squeue",)), ask(("scontrol",))] == ["done", "done"]
    assert asked == [(("squeue",), DEADLINE_S), (("scontrol",), DEADLINE_S - 2)]


def test_no_command_runs_once_the_time_is_up() -> None:
    clock = times(0.0, DEADLINE_S)
    ask = before_deadline(lambda argv, timeout_s: pytest.fail("ran"), lambda: next(clock))
    with pytest.raises(subprocess.TimeoutExpired):
        ask(("squeue",))


def test_returns_output_and_raises_for_a_command_that_fails() -> None:
    assert run_command(("echo", "one"), 5.0) == "one\n"
    with pytest.raises(subprocess.CalledProcessError):
        run_command(("false",), 5.0)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo first >&2; echo 'fatal: no \xff source' >&2; exit 1", "fatal: no"),
        ("exit 3", "exit code 3"),
        ("exec sleep 60", "no answer in 0.2 s"),
    ],
)
def test_a_person_gets_one_line_with_the_cure(script: str, said: str) -> None:
    with pytest.raises(NoAnswer) as caught:
        answer_of(("sh", "-c", script), 0.2 if "sleep" in script else 20.0)
    assert said in str(caught.value)
    assert str(caught.value).endswith("see that slurmctld answers: scontrol ping")
    assert "\n" not in str(caught.value).replace(script, "")


def test_a_slurm_conf_that_is_not_there_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer_of(("echo", "one"), 5.0) == "one\n"
    monkeypatch.setenv("SLURM_CONF", "/absent/slurm.conf")
    with pytest.raises(NoAnswer, match="SLURM_CONF names /absent"):
        answer_of(("sleep", "60"), 60.0)


def test_a_persons_settings_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """With SQUEUE_STATES=PENDING a node that runs jobs would be taken for an empty one."""
    for name in ("SQUEUE_STATES", "SQUEUE_PARTITION", "SLURM_CLUSTERS", "SCONTROL_ALL"):
        monkeypatch.setenv(name, "other")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    monkeypatch.setenv("SLURM_JWT", "token")
    names = "$SQUEUE_STATES$SQUEUE_PARTITION$SLURM_CLUSTERS$SCONTROL_ALL $SLURM_TIME_FORMAT"
    told = answer_of(("sh", "-c", f"echo {names} $TZ $SLURM_JWT $PATH"), 20.0)
    assert told == f"standard UTC0 token {os.environ['PATH']}\n"
    assert "SLURM_CLUSTERS" not in plain_environment({"SLURM_CLUSTERS": "b"})


def test_in_a_federation_each_command_shows_its_own_cluster_alone() -> None:
    """With fed_display the jobs of another cluster would hold GPUs of nodes with the same name."""
    told = run_command(("sh", "-c", "echo $SQUEUE_LOCAL $SCONTROL_LOCAL $SINFO_LOCAL"), 20.0)
    assert told == "1 1 1\n"


def test_a_command_that_hangs_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_command(("sleep", "60"), 0.05)
