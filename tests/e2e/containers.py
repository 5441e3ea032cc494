"""Drives the container cluster of deploy/compose: engine, images, and a running cluster."""

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from roost_slurm.text.commands import show_job
from roost_slurm.text.scontrol import JobDetail, parse_jobs

COMPOSE = Path(__file__).resolve().parents[2] / "deploy" / "compose"
# Debian's release, and the Slurm that it carries.
SUITES = {"bookworm": "22.05", "trixie": "24.11"}
PYTHON = "/opt/roost/bin/python"  # in the images
START_TIMEOUT_S = 60.0  # slurmd 24.11 alone takes 11 s to register
_POLL_S = 0.25

T = TypeVar("T")
Gpus = dict[str, tuple[int, ...]]  # node -> gres indices, ascending


class ContainersUnavailable(Exception):
    """No container engine can be had here; says why."""


class ContainersFailed(Exception):
    """A command in or around the containers failed; carries what it printed."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A Docker engine that answers.

    Attributes:
        env: the environment in which `docker` reaches it.
        compose: the compose command, `docker compose` or `docker-compose`.
    """

    env: Mapping[str, str]
    compose: tuple[str, ...]

    def run(self, *argv: str, stdin: str | None = None, check: bool = True) -> str:
        """Run a command and return its stdout.

        Raises:
            ContainersFailed: it failed, and `check` is set.
        """
        done = subprocess.run(
            argv, env=self.env, input=stdin, capture_output=True, text=True, check=False
        )
        if check and done.returncode:
            raise ContainersFailed(f"{shlex.join(argv)}: {done.stderr.strip() or done.stdout}")
        return done.stdout

    def build(self, suites: Iterable[str], *targets: str) -> None:
        """Build the images of all suites side by side."""
        builds = [
            subprocess.Popen(
                [COMPOSE / "build.sh", suite, *targets],
                env=self.env,
                stderr=subprocess.PIPE,
                text=True,
            )
            for suite in suites
        ]
        told = [build.communicate()[1] for build in builds]
        for build, text in zip(builds, told, strict=True):
            if build.returncode:
                raise ContainersFailed(text)


@contextmanager
def running_engine() -> Iterator[Engine]:
    """Use the machine's engine, or start one for the time being.

    Raises:
        ContainersUnavailable: there is none, and none can be installed.
    """
    was_running = subprocess.run([COMPOSE / "engine.sh", "running"], check=False).returncode == 0
    try:
        done = subprocess.run(
            [COMPOSE / "engine.sh", "up"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ContainersUnavailable(done.stderr.strip())
        exported = (line.removeprefix("export ") for line in done.stdout.splitlines())
        given = {
            name: shlex.split(value)[0] for name, _, value in (e.partition("=") for e in exported)
        }
        yield Engine(os.environ | given, tuple(given["ROOST_COMPOSE"].split()))
    finally:
        if not was_running:
            subprocess.run([COMPOSE / "engine.sh", "down"], capture_output=True, check=False)


class ContainerCluster:
    """The cluster of compose.yaml; use it as a context manager, and wait_ready().

    Attributes:
        engine: where it runs.
        slurm_release: "22.05" or "24.11".
    """

    def __init__(self, engine: Engine, suite: str) -> None:
        self.engine = engine
        self.slurm_release = SUITES[suite]
        self._image = f"roost/slurm:{suite}"
        # Several checkouts may test on one engine.
        self._project = f"roost-{suite}-{os.getpid()}"
        self._suite = suite
        self._containers: dict[str, str] = {}

    def __enter__(self) -> Self:
        try:
            self._compose("up", "--detach")
            for service in ("controller", "bridges", "cube"):
                self._containers[service] = self._compose("ps", "--quiet", service).strip()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the cluster and forget its state."""
        self._compose("down", "--volumes", "--timeout", "1")

    def wait_ready(self) -> None:
        """Wait until jobs can be submitted, every probe reports and all nodes are idle."""
        self.wait_until(self._is_ready, "the cluster did not come up", START_TIMEOUT_S)

    # -- commands ----------------------------------------------------------------------------

    def run(self, service: str, *argv: str, user: str = "root", check: bool = True) -> str:
        """Run a command in a container."""
        container = self._containers[service]
        return self.engine.run("docker", "exec", "--user", user, container, *argv, check=check)

    def submit(self, *options: str, script: str = "sleep 600") -> str:
        """Submit a job as an ordinary user; return its id."""
        common = ("--parsable", "--chdir=/tmp", "--output=/dev/null")
        return self.run(
            "controller", "sbatch", *common, *options, f"--wrap={script}", user="alice"
        ).strip()

    def roostctl(self, *words: str) -> dict[str, Any]:
        """Ask roostd."""
        answer: dict[str, Any] = json.loads(self.run("controller", "roostctl", *words, "--json"))
        return answer

    def start_stock(self) -> subprocess.Popen[str]:
        """Begin to measure what this release of Slurm chooses by itself; see stock_choice.py."""
        # Its cluster binds to the address of the host's name, which must be the loopback.
        place = ("--hostname", "localhost", "--network", f"{self._project}_default")
        program = ("--entrypoint", PYTHON, self._image, "-")
        with Path(__file__).with_name("stock_choice.py").open() as script:
            return subprocess.Popen(
                ("docker", "run", "--rm", "--interactive", "--init", *place, *program),
                env=self.engine.env,
                stdin=script,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

    # -- questions ---------------------------------------------------------------------------

    def job(self, job_id: str) -> JobDetail:
        """What Slurm says of a job."""
        jobs = parse_jobs(self.run("controller", *show_job(job_id)))
        return next(iter(jobs.values()))

    def states(self) -> dict[str, str]:
        """The state of every job and array task that is not forgotten yet, in Slurm's words."""
        argv = ("squeue", "--noheader", "--states=all", "--array", "--format=%i %T")
        rows = map(str.split, self.run("controller", *argv).splitlines())
        return {job_id: state for job_id, state in rows}  # noqa: C416  # dict() loses the types

    def allocated(self, job_id: str) -> Gpus:
        """The GPUs that Slurm gave a job."""
        return {share.node: share.gpu_indices for share in self.job(job_id).allocated}

    def planned(self, job_id: str) -> Gpus:
        """The GPUs that roostd chose for a job; empty where it chose none."""
        places = self.roostctl("job", job_id)["job"]["planned"]
        return {place["node"]: tuple(place["gpu_indices"]) for place in places}

    def wait_running(self, *job_ids: str, timeout_s: float = 20.0) -> None:
        """Wait until all of these jobs run."""

        def all_run() -> bool:
            states = self.states()
            return all(states.get(job_id) == "RUNNING" for job_id in job_ids)

        self.wait_until(all_run, f"jobs {', '.join(job_ids)} do not all run", timeout_s)

    def wait_for_probes(self, count: int) -> None:
        """Wait until so many probes report; one that lost roostd tries again in up to a minute."""
        self.wait_until(
            lambda: bool(self.roostctl("status")["probe_count"] == count),
            f"not {count} probes report",
            timeout_s=90.0,
        )

    def wait_until(self, fact: Callable[[], bool], complaint: str, timeout_s: float = 20.0) -> None:
        """Poll until something holds.

        Raises:
            ContainersFailed: it does not, in time.
        """
        deadline = time.monotonic() + timeout_s
        while not fact():
            if time.monotonic() > deadline:
                raise ContainersFailed(f"{complaint} after {timeout_s:g} s\n{self._tail()}")
            time.sleep(_POLL_S)

    def cancel_all(self) -> None:
        """Cancel every job and wait until nothing is allocated."""
        self.run("controller", "scancel", "--user=alice")
        self.wait_until(
            lambda: not self.run("controller", "squeue", "--noheader").strip(),
            "jobs do not end",
        )

    # -- faults ------------------------------------------------------------------------------

    def kill_roostd(self) -> None:
        """End roostd the hard way."""
        self.run("controller", "sh", "-c", "kill -9 $(cat /run/roostd.pid)")

    def start_roostd(self) -> None:
        """Start roostd again and wait until it serves."""
        self._detached("controller", "roostd")
        self.wait_until(self._serves, "roostd does not serve")

    def kill_probe(self, node: str) -> None:
        """End a node's probe the hard way."""
        self.run(node, "sh", "-c", "kill -9 $(cat /run/roost-probe.pid)")

    def start_probe(self, node: str) -> None:
        """Start a node's probe again."""
        self._detached(node, "probe")

    # -- parts -------------------------------------------------------------------------------

    def _compose(self, *words: str) -> str:
        argv = ("--file", str(COMPOSE / "compose.yaml"), "--project-name", self._project, *words)
        env = dict(self.engine.env) | {"ROOST_SUITE": self._suite}
        return Engine(env, self.engine.compose).run(*self.engine.compose, *argv)

    def _detached(self, service: str, role: str) -> None:
        container = self._containers[service]
        self.engine.run("docker", "exec", "--detach", container, "roost-container", role)

    def _serves(self) -> bool:
        try:
            self.roostctl("status")
        except ContainersFailed:
            return False
        return True

    def _is_ready(self) -> bool:
        try:
            states = self.run("controller", "sinfo", "--noheader", "--Node", "--format=%T").split()
            return states == ["idle", "idle"] and self.roostctl("status")["probe_count"] == 2
        except ContainersFailed:
            return False

    def _tail(self) -> str:
        told = []
        for service, log in (
            ("controller", "/var/log/roostd.log"),
            ("bridges", "/var/log/roost-probe.log"),
            ("cube", "/var/log/roost-probe.log"),
        ):
            with suppress(ContainersFailed):
                told.append(f"{service} {log}:\n{self.run(service, 'tail', '-n15', log)}")
        with suppress(ContainersFailed):
            told.append(self.run("controller", "squeue", "--long"))
        told.append(self._compose("logs", "--tail", "15", "--no-color"))
        return "\n".join(told)


def lanes(links: Sequence[Sequence[int]], indices: Sequence[int]) -> int:
    """NVLink lanes between the GPUs of a set, all pairs added up."""
    return sum(links[a][b] for a in indices for b in indices if a < b)
