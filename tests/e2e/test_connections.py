"""No part of Roost makes a connection, or looks a name up, that its site did not configure.

Each program runs where no route leads out, under a watch on connects, datagrams and lookups.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import missing

HERE = Path(__file__).parent
TRACE = "submit_s,num_gpus,duration_s\n" + "".join(f"{i * 10},{1 + i % 4},60\n" for i in range(20))
START_S = 90.0
PROBE_PORT = 17471
LOOPBACK = ("127.", "::1")
# The runtime reports some seconds after a model was loaded.
STAY_S = 8.0


class Watch:
    """Programs that run without routes, and what they tried to reach."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder, self.log, self.home = folder, folder / "watch", folder / "home"
        self.home.mkdir()
        unset = {key: value for key, value in os.environ.items() if "TELEMETRY" not in key}
        self.env = unset | {
            "LD_PRELOAD": str(library),
            "CONNECTION_WATCH": str(self.log),
            "HOME": str(self.home),
        }

    def argv(self, program: str, *arguments: str) -> list[str]:
        """The command line of one of Roost's programs, without routes."""
        script = f"import sys; from {program} import main; sys.exit(main())"
        no_routes = (sys.executable, str(HERE / "no_routes.py"))
        return [*no_routes, sys.executable, "-c", script, *arguments]

    def run(self, program: str, *arguments: str, **more: str) -> str:
        """Run a program to its end and return its stdout."""
        done = subprocess.run(
            self.argv(program, *arguments),
            env=self.env | more,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tried(self) -> list[str]:
        """What was tried beyond the loopback: "connect 10.0.0.1 53", "lookup example.org 0"."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [
            line
            for line in lines
            if not line.split()[1].startswith(LOOPBACK) and line.split()[1] != "localhost"
        ]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        missing("gcc is not installed")
    built = tmp_path_factory.mktemp("watch") / "watch.so"
    source = HERE / "connection_watch.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", built, source, "-ldl"], check=True)
    return built


@pytest.fixture
def watch(tmp_path: Path, library: Path) -> Watch:
    found = Watch(tmp_path, library)
    tried = subprocess.run(
        [sys.executable, str(HERE / "no_routes.py"), "/bin/true"], capture_output=True, check=False
    )
    if tried.returncode:
        missing(f"no network of its own can be had: {tried.stderr.decode()[-100:]}")
    return found


@pytest.fixture
def daemon(watch: Watch) -> Iterator[Callable[[], None]]:
    """A roostd with the model that ships, in a folder of its own."""
    folder = watch.folder
    (folder / "a.yaml").write_text(
        f"listen: {{probes: '127.0.0.1:{PROBE_PORT}'}}\nslurm: {{bin_dir: {folder}/none}}\n"
        f"paths: {{runtime_dir: {folder}/run, state_dir: {folder}/state}}\n"
        "policy: {model: builtin}\n"
    )
    argv = watch.argv("roostd.cli", "--config", str(folder / "a.yaml"))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, env=watch.env, stderr=log)

    def wait() -> None:
        deadline_s = time.monotonic() + START_S
        while not (folder / "run" / "operator.sock").exists():
            assert time.monotonic() < deadline_s, (folder / "log").read_text()
            time.sleep(0.1)

    yield wait
    process.send_signal(signal.SIGTERM)
    process.wait(START_S)


def test_the_watch_sees_what_a_program_tries(watch: Watch) -> None:
    script = (
        "import socket\n"
        "for name in ('localhost', 'telemetry.example'):\n"
        "    try: socket.getaddrinfo(name, 443)\n"
        "    except OSError: pass\n"
        "for place in ('127.0.0.1', '192.0.2.1'):\n"
        "    try: socket.create_connection((place, 9), 1)\n"
        "    except OSError: pass\n"
    )
    no_routes = (sys.executable, str(HERE / "no_routes.py"))
    subprocess.run([*no_routes, sys.executable, "-c", script], env=watch.env, check=True)
    tried = watch.tried()
    assert "lookup telemetry.example 0" in tried
    assert "connect 192.0.2.1 9" in tried
    assert not any("127." in line for line in tried)


def test_roostd_and_roostctl_reach_for_nothing(watch: Watch, daemon: Callable[[], None]) -> None:
    daemon()
    address = f"unix:{watch.folder}/run/operator.sock"
    told = watch.run("roostctl.main", "--daemon", address, "status", "--json")
    assert '"policy"' in told
    time.sleep(STAY_S)
    assert watch.tried() == []
    assert [path for path in watch.home.rglob("*") if path.is_file()] == []


@pytest.mark.nvml
def test_the_probe_reaches_for_its_daemon_alone(watch: Watch) -> None:
    if shutil.which("gcc") is None:
        missing("gcc is not installed")
    node = watch.folder / "node"
    create = ("create", "--topology", "bridges8", "--state", str(node / "state"))
    made = (*create, "--lib-dir", str(node), "--sysfs", str(node / "sys"))
    node.mkdir()
    subprocess.run([sys.executable, "-m", "roost_probe.testing", *made], check=True)
    driver = {"ROOST_FAKE_NVML_STATE": str(node / "state"), "LD_LIBRARY_PATH": str(node)}
    told = watch.run("roost_probe.cli", "--once", "--json", "--sysfs-root", f"{node}/sys", **driver)
    assert "sm_frac" in told
    argv = watch.argv("roost_probe.cli", "--daemon", "192.0.2.7:7471", "--node", "n1")
    process = subprocess.Popen(
        [*argv, "--sysfs-root", f"{node}/sys"], env=watch.env | driver, stderr=subprocess.DEVNULL
    )
    time.sleep(STAY_S)
    process.send_signal(signal.SIGTERM)
    process.wait(START_S)
    assert {line for line in watch.tried() if "192.0.2.7 7471" not in line} == set()


def test_the_simulator_reaches_for_nothing(watch: Watch) -> None:
    trace = watch.folder / "jobs.csv"
    trace.write_text(TRACE)
    options = ("--trace", str(trace), "--cluster", "small", "--policy", "roost", "--json")
    assert "{" in watch.run("roost_sim.cli", "run", *options)
    assert watch.tried() == []


@pytest.mark.torch
def test_training_reaches_for_nothing(watch: Watch) -> None:
    pytest.importorskip("torch")
    from roost_formats.models.score import score_file

    model = score_file("builtin")
    assert model is not None
    assert '"same": true' in watch.run("roost_train.cli", "verify", str(model))
    assert watch.tried() == []
