import contextlib
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.early_signals import program_with_signal

from roost_formats.testing.run_time_models import install_run_times
from roostd.cli import EXIT_CONFIG, EXIT_LOCKED, EXIT_OK, main

START_S = 100.0
PROGRAM = (sys.executable, "-m", "roostd.cli")


class Process:
    """A real roostd, told by NOTIFY_SOCKET how it fares; Slurm's commands are missing."""

    def __init__(
        self,
        folder: Path,
        program: Sequence[str] = PROGRAM,
        log: int | None = None,
        **environ: str,
    ) -> None:
        self.folder = folder
        self.config = folder / "roostd.yaml"
        if not self.config.exists():
            self.config.write_text(
                f"listen: {{probes: '127.0.0.1:0'}}\npolicy: {{model: none}}\n"
                f"slurm: {{bin_dir: {folder}/no-slurm}}\n"
                f"paths: {{runtime_dir: {folder}/run, state_dir: {folder}/state}}\n"
            )
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        address = folder / f"notify-{time.monotonic_ns()}"
        self._notify.bind(str(address))
        self._notify.settimeout(START_S)
        self.log = (folder / "log").open("ab")
        self.process = subprocess.Popen(
            [*program, "--config", str(self.config)],
            env={**os.environ, "NOTIFY_SOCKET": str(address), **environ},
            stderr=self.log if log is None else log,
        )

    def hear(self, prefix: str) -> str:
        """The next notification that begins so; others are passed over."""
        deadline_s = time.monotonic() + START_S
        while time.monotonic() < deadline_s:
            message = self._notify.recv(4096).decode()
            if message.startswith(prefix):
                return message
        raise AssertionError(f"no {prefix}: {self.logged()}")

    def logged(self) -> str:
        return (self.folder / "log").read_text()

    def until_logged(self, text: str) -> None:
        """Wait for a line with this text: a thread of roostd's writes the log."""
        deadline_s = time.monotonic() + START_S
        while text not in self.logged():
            assert time.monotonic() < deadline_s, f"no {text}: {self.logged()}"
            time.sleep(0.01)

    def end(self, sign: signal.Signals) -> int:
        self.process.send_signal(sign)
        return self.process.wait(START_S)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self._notify.close()
        self.log.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@contextlib.contextmanager
def roostd(
    folder: Path, program: Sequence[str] = PROGRAM, log: int | None = None, **environ: str
) -> Iterator[Process]:
    process = Process(folder, program, log, **environ)
    try:
        yield process
    finally:
        process.close()


def _programs(folder: Path) -> str:
    """Make Slurm's programs, which this machine may lack; return the lines that name them."""
    for program in ("scontrol", "squeue"):
        (folder / program).touch(0o755)
    return f"slurm: {{bin_dir: {folder}}}\n"


def test_check_config_is_silent_about_a_right_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text("mode: enforce\n" + _programs(tmp_path))

    assert main(["check-config", str(tmp_path / "a.yaml")]) == EXIT_OK
    assert capsys.readouterr() == ("", "")


def test_check_config_notes_numbers_that_have_no_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("mode: shadow\npreemption:\n  kind: none\n  patience_s: 5\n")

    assert main(["check-config", str(file)]) == EXIT_OK
    note = f"note: {file}:4: preemption.patience_s: no effect with kind none; remove it, or set"
    assert note in capsys.readouterr().err


def test_check_config_says_that_a_file_sets_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text("# mode: enforce\n")

    assert main(["check-config", str(tmp_path / "a.yaml")]) == EXIT_OK
    assert f"{tmp_path / 'a.yaml'} sets nothing" in capsys.readouterr().err


def test_check_config_checks_what_is_named_before_the_command_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("mode: enforcee\n")

    assert main(["--config", str(file), "check-config"]) == EXIT_CONFIG
    assert "enforcee" in capsys.readouterr().err
    assert main(["--set", "mode=nowhere", "check-config"]) == EXIT_CONFIG
    assert "nowhere" in capsys.readouterr().err


def test_check_config_names_every_problem_and_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("mode: enforcee\nslurm: {lease: 5}\n")

    assert main(["check-config", str(file)]) == EXIT_CONFIG
    assert capsys.readouterr().err == (
        f"{file}:1: mode: want off, shadow, advise or enforce, got enforcee; "
        f"{file}:2: slurm.lease: unknown key, did you mean slurm.lease_s?\n"
    )


def test_check_config_loads_the_model_of_run_times_and_names_the_line_of_one_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, model = tmp_path / "a.yaml", install_run_times(tmp_path / "model")
    order = f"order:\n  kind: learned\n  run_time_model: {model}\n"
    file.write_text(order + _programs(tmp_path))
    assert main(["check-config", str(file)]) == EXIT_OK
    assert capsys.readouterr().err == ""

    model.write_bytes(model.read_bytes()[:-1])
    assert main(["check-config", str(file)]) == EXIT_CONFIG
    told = capsys.readouterr().err
    assert told.startswith(f"{file}:3: order.run_time_model: {model}: the file has sha256 ")
    assert told.endswith("; name another model, or none\n")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ("kind: learned\n  run_time_model: builtin", "no model of run times ships with Roost"),
        ("kind: learned\n  run_time_model: model.onnx", "want none, or the absolute path"),
        ("kind: priority\n  run_time_model: /m.onnx", "kind priority does not have it; remove it"),
    ],
)
def test_check_config_refuses_what_is_no_model_of_run_times_in_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: str, complaint: str
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"order:\n  {settings}\n")
    assert main(["check-config", str(file)]) == EXIT_CONFIG
    told = capsys.readouterr().err
    assert told.startswith(f"{file}:3: order.run_time_model: ")
    assert complaint in told


def test_check_config_shows_every_value_and_its_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("mode: enforce\n")

    assert main(["check-config", str(file), "--show", "--set", "cluster=lab"]) == EXIT_OK

    lines = capsys.readouterr().out.splitlines()
    assert f"mode: enforce  # {file}:1" in lines
    assert "cluster: lab  # --set cluster" in lines
    assert "slurm.lease_s: 60.0  # default" in lines


def test_a_wrong_configuration_does_not_start_the_daemon(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text("mode: [\n")

    assert main(["--config", str(tmp_path / "a.yaml")]) == EXIT_CONFIG
    assert "not YAML" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["check-config"], ["--config"]], ids=["check", "start"])
def test_a_missing_slurm_conf_is_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        f"paths: {{runtime_dir: {tmp_path}/run, state_dir: {tmp_path}/state}}\n"
        f"slurm: {{conf: {tmp_path}/slurm.conf, bin_dir: {tmp_path}}}\n"
    )

    assert main([*command, str(file)]) == EXIT_CONFIG
    assert capsys.readouterr().err == (
        f"{file}:2: slurm.conf: {tmp_path}/slurm.conf: No such file or directory\n"
    )
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("what", "why"), [("port", "Address already in use"), ("socket", "AF_UNIX path too long")]
)
def test_a_port_or_socket_that_cannot_be_had_is_one_line(folder: Path, what: str, why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1] if what == "port" else 0
        run = folder / "run" if what == "port" else folder / ("r" * 120)
        (folder / "roostd.yaml").write_text(
            f"listen: {{probes: '127.0.0.1:{port}'}}\npolicy: {{model: none}}\n"
            f"slurm: {{bin_dir: {folder}/no-slurm}}\n"
            f"paths: {{runtime_dir: {run}, state_dir: {folder}/state}}\n"
        )
        with roostd(folder) as daemon:
            assert daemon.process.wait(START_S) == EXIT_CONFIG
            lines = daemon.logged().splitlines()

    assert len(lines) == 1, lines
    assert lines[0].startswith("roostd: listen.")
    assert lines[0].endswith(why)


def test_sigterm_drains_and_leaves_nothing_behind(folder: Path) -> None:
    with roostd(folder) as daemon:
        assert "cannot be run: No such file" in daemon.hear("READY=1")
        assert (folder / "run" / "operator.sock").is_socket()

        assert daemon.end(signal.SIGTERM) == EXIT_OK

        daemon.hear("STOPPING=1")
        assert not (folder / "run" / "operator.sock").exists()
        assert "event=roostd_stopped" in daemon.logged()


def test_a_log_on_a_full_disk_or_without_a_reader_stops_nothing(folder: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    reads, gone = os.pipe()
    os.close(reads)
    for log in (full, gone):
        with roostd(folder, log=log) as daemon:
            daemon.hear("READY=1")
            assert daemon.end(signal.SIGTERM) == EXIT_OK
            daemon.hear("STOPPING=1")
        os.close(log)


def test_sighup_reloads_and_keeps_what_it_had_when_the_file_is_wrong(folder: Path) -> None:
    with roostd(folder) as daemon:
        daemon.hear("READY=1")
        text = daemon.config.read_text()
        daemon.config.write_text(text + "mode: shado\n")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.hear("RELOADING=1\nMONOTONIC_USEC=")
        daemon.hear("READY=1")
        daemon.config.write_text(text + "mode: advise\n")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.hear("RELOADING=1")
        daemon.hear("READY=1")

        daemon.until_logged(f"{daemon.config}:5: mode: want off, shadow, advise or enforce")
        daemon.until_logged("event=config_reloaded")
        assert daemon.end(signal.SIGTERM) == EXIT_OK


def test_a_sighup_before_it_is_ready_reloads_it_once_it_is(folder: Path) -> None:
    # The module is imported after the configuration was read.
    hung_up = program_with_signal("roostd.start", "roostd.app.daemon", signal.SIGHUP)
    with roostd(folder, hung_up) as daemon:
        daemon.hear("READY=1")
        daemon.hear("RELOADING=1")
        daemon.hear("READY=1")

        daemon.until_logged("event=config_reloaded")
        assert daemon.end(signal.SIGTERM) == EXIT_OK


def test_the_decision_loop_feeds_the_watchdog(folder: Path) -> None:
    with roostd(folder, WATCHDOG_USEC="400000") as daemon:
        began_s = time.monotonic()
        daemon.hear("READY=1")
        began_s = time.monotonic()
        for _ in range(4):
            daemon.hear("WATCHDOG=1")

        assert (
            time.monotonic() - began_s < 30.0
        )  # without a limit it turns every 10 s or less often


def test_a_killed_daemon_starts_again_on_what_it_left(folder: Path) -> None:
    with roostd(folder) as daemon:
        daemon.hear("READY=1")
        assert daemon.end(signal.SIGKILL) == -signal.SIGKILL
        assert (folder / "run" / "operator.sock").is_socket()
    with roostd(folder) as daemon:
        daemon.hear("READY=1")
        assert daemon.end(signal.SIGTERM) == EXIT_OK


def test_a_second_daemon_exits_and_names_the_first(folder: Path) -> None:
    with roostd(folder) as first:
        first.hear("READY=1")
        with roostd(folder) as second:
            assert second.process.wait(START_S) == EXIT_LOCKED
        assert "another roostd is running on it" in first.logged()


def test_a_table_of_speeds_is_checked_with_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, file = tmp_path / "speeds.csv", tmp_path / "roostd.yaml"
    table.write_text("model,gpus,node,rack,across\nbert,8,1,2,3\n")
    file.write_text(f"gate: {{kind: delay, speeds: {table}}}\n")
    assert main(["check-config", str(file)]) == EXIT_CONFIG
    wanted = "want node >= rack >= across: farther apart is never faster"
    assert capsys.readouterr().err == f"{table}:2: {wanted}\n"


def test_a_check_without_a_file_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roostd.cli.DEFAULT_FILE", tmp_path / "none.yaml")
    user = pwd.getpwuid(os.geteuid()).pw_name
    assert main(["check-config", "--user", user]) == EXIT_OK
    said = f"note: no {tmp_path}/none.yaml: every setting has its default"
    assert capsys.readouterr().err.splitlines()[-1] == said


def test_the_reader_of_the_values_may_leave(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("mode: shadow\n" + _programs(tmp_path))
    reader, writer = os.pipe()
    os.close(reader)  # as `| head -1` does
    with open(writer, "wb") as output:
        ended = subprocess.run(
            [sys.executable, "-m", "roostd.cli", "check-config", "--show", str(file)],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (EXIT_OK, "")
