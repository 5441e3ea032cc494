"""Slurm as a site runs it, kills, clocks and faults, on newer releases: in one container each."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.containers import PYTHON, Engine

# A test here reads the end of a run that the module has started: it cannot be repeated.
pytestmark = [pytest.mark.compose, pytest.mark.timeout(1200), pytest.mark.flaky(reruns=0)]

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "tests/e2e/site"
_FAULTS = ("clock", "crash", "faults", "forgotten_pins", "orphans", "two_daemons")
LOCAL = tuple(f"tests/e2e/test_local_{name}.py" for name in _FAULTS)
SUITES = ("trixie", "sid")  # Slurm 24.11 and 26.05; 22.05 is the release that `make test` has
# Roost does the same things on 24.11 and 26.05. With ROOST_SITE_BRIEF=1 the former has only the
# tests of what it has once done in another way, or what would harm jobs worst, and the latter those
# of a site's rules.
BRIEF = ("limits", "orphaned_pins", "preemption", "seats")
WORKERS, BRIEF_WORKERS = 5, 3  # the tests mostly wait
OPTIONS = "-p no:cacheprovider --dist loadfile --reruns 1 --rerun-show-tracebacks --durations=12"
PYTEST = f"{PYTHON} -m pytest {OPTIONS}"
# For the devices cgroup, where the host has one. Each device has a rule of its own: Slurm can take
# no single one out of a wildcard.
CGROUPS = ("--cap-add=SYS_ADMIN", "--security-opt=seccomp=unconfined", "--cgroupns=private")
DEVICES = [f"--device-cgroup-rule=c {major}:{i} rmw" for major in (240, 241) for i in range(8)]
WRITABLE = "for folder in /sys/fs/cgroup/*/; do mount -o remount,bind,rw $folder; done 2>/dev/null"
COMMAND = f"{WRITABLE}; tar x && exec {PYTEST}"


@pytest.fixture(scope="module")
def runs(engine: Engine) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """The tests of all releases, which run at once."""
    engine.build(SUITES, "slurm", "site")
    paths = ("tests", "pyproject.toml", "slurm_glue/systemd")
    argv = ("tar", "c", "-C", str(ROOT), "--exclude=__pycache__", *paths)
    tree = subprocess.run(argv, capture_output=True, check=True).stdout
    # A network that leads nowhere; with none at all no name resolves, not even localhost.
    network = f"roost-site-{os.getpid()}"
    engine.run("docker", "network", "create", "--internal", network)
    running = {suite: start(engine, suite, tree, network) for suite in SUITES}
    yield running
    for process in running.values():
        process.kill()
        process.wait()
    for suite in SUITES:
        engine.run("docker", "rm", "--force", f"{network}-{suite}", check=False)
    engine.run("docker", "network", "rm", network)


def start(engine: Engine, suite: str, tree: bytes, network: str) -> subprocess.Popen[bytes]:
    files, workers = [FOLDER, *LOCAL], WORKERS
    if os.environ.get("ROOST_SITE_BRIEF"):
        files = [FOLDER]
        if suite == "trixie":
            files, workers = [f"{FOLDER}/test_{name}.py" for name in BRIEF], BRIEF_WORKERS
    # Its cluster binds to the address of the host's name, which must be the loopback.
    place = ("--hostname", "localhost", "--network", network, "--name", f"{network}-{suite}")
    options = ("--rm", "--interactive", "--init", *place, *CGROUPS, *DEVICES)
    process = subprocess.Popen(
        (
            *("docker", "run", *options, f"roost/site:{suite}"),
            *("sh", "-c", f"{COMMAND} -n {workers} {' '.join(files)}"),
        ),
        env=engine.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdin is not None
    process.stdin.write(tree)
    process.stdin.close()
    process.stdin = None
    return process


@pytest.mark.parametrize("suite", SUITES)
def test_a_site_is_served_as_on_the_oldest_release(
    runs: dict[str, subprocess.Popen[bytes]], suite: str
) -> None:
    told = runs[suite].communicate()[0].decode(errors="replace")
    print(told)  # pytest shows it with -rP too
    assert runs[suite].returncode == 0
