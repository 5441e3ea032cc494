"""Watching: again and again, through a daemon's restart, until Ctrl-C."""

import json
import signal
import subprocess
import sys

import grpc
import pytest
from tests.cli.conftest import Run

from roostctl.clients.calls import CallFailed
from roostctl.options import watch
from roostctl.options.watch import repeat
from roostctl.testing import FakeOperator

PROGRAM = [sys.executable, "-c", "from roostctl.main import main; main()"]


class Pauses:
    """Counts pauses, and presses Ctrl-C in the last one."""

    def __init__(self, count: int) -> None:
        self.left, self.asked_s = count, list[float]()

    def __call__(self, seconds: float) -> None:
        self.asked_s.append(seconds)
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_draws_once_without_an_interval() -> None:
    frames: list[int] = []
    repeat(lambda: frames.append(1), None, Pauses(0))
    assert frames == [1]


def test_draws_until_interrupted() -> None:
    frames: list[int] = []
    pauses = Pauses(3)
    repeat(lambda: frames.append(1), 0.5, pauses)
    assert (len(frames), pauses.asked_s) == (3, [0.5, 0.5, 0.5])


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED], ids=str
)
def test_waits_for_a_daemon_that_restarts(
    code: grpc.StatusCode, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter([None, CallFailed(code, "roostd is away"), None])
    seen: list[str] = []

    def frame() -> None:
        if error := next(answers):
            raise error
        seen.append("frame")

    repeat(frame, 0.5, Pauses(3))
    assert seen == ["frame", "frame"]
    assert capsys.readouterr().err == "roostctl: roostd is away\n"


def test_gives_up_when_the_daemon_never_answered() -> None:
    def frame() -> None:
        raise CallFailed(grpc.StatusCode.UNAVAILABLE, "roostd is away")

    with pytest.raises(CallFailed):
        repeat(frame, 0.5, Pauses(1))


def test_gives_up_when_refused() -> None:
    answers = iter([None, CallFailed(grpc.StatusCode.PERMISSION_DENIED, "no")])

    def frame() -> None:
        if error := next(answers):
            raise error

    with pytest.raises(CallFailed):
        repeat(frame, 0.5, Pauses(5))


def test_ctrl_c_ends_watching_with_success(cluster: FakeOperator, address: str) -> None:
    arguments = ["--daemon", address, "jobs", "--json", "--watch", "0.01"]
    with subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        documents = [json.loads(watcher.stdout.readline()) for _ in range(2)]
        watcher.send_signal(signal.SIGINT)
        watcher.stdout.read()
        assert watcher.wait(timeout=60) == 0
    assert {document["schema"] for document in documents} == {"roost.jobs/1"}


def test_status_is_shown_again_as_roostd_changes(cluster: FakeOperator, address: str) -> None:
    arguments = ["--daemon", address, "status", "--json", "--watch", "0.01"]
    with subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        first = json.loads(watcher.stdout.readline())
        cluster.status.waiting_job_count = first["waiting_job_count"] + 7
        counts = (json.loads(line)["waiting_job_count"] for line in watcher.stdout)
        assert first["waiting_job_count"] + 7 in counts
        watcher.send_signal(signal.SIGINT)
        watcher.stdout.read()
        assert watcher.wait(timeout=60) == 0


def test_status_on_a_terminal_is_wiped_before_it_is_shown_again(
    cluster: FakeOperator, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = Pauses(3)
    monkeypatch.setattr(watch.repeat, "__defaults__", (pauses,))
    result = run("status", "--watch", "5", FORCE_COLOR="1", TERM="xterm")
    assert result.exit_code == 0, result.output
    assert pauses.asked_s == [5.0, 5.0, 5.0]
    assert result.stdout.count("\x1b[2J") == result.stdout.count("Decisions") == 3


def test_a_check_is_not_watched(run: Run) -> None:
    refused = run("status", "--check", "--watch")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--check gives one exit code: it does not go with --watch" in refused.stderr
