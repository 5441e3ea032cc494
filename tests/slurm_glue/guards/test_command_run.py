import subprocess
from collections.abc import Iterator

import pytest

from roost_slurm.guards.command_run import DEADLINE_S, before_deadline, run_command


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


def test_a_command_that_hangs_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_command(("sleep", "60"), 0.05)
