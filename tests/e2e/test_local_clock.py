"""The wall clock of a real Slurm and of roostd is set forward and back, an hour at a time.

A preloaded library gives every process of this cluster a wall clock of its own (set_clock.c).
Set back, slurmctld 22.05 starts no job until its clock is where it was, also without Roost.
"""

import contextlib
import pwd
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.e2e.ledger import assert_all_completed, clear, job_states, submit, wait_until_over
from tests.e2e.two_nodes import LEASE_S, NODES

from roost_demo.stack import Stack
from roost_proto.v1 import operator_pb2
from roost_slurm.testing.availability import LocalSlurmUnavailable
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.local_slurm import LocalSlurm

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(400)]

HOUR_S = 3_600
# A job that is launched while the clock is set has an expired credential: Slurm requeues it, and
# starts it 121 s later.
REQUEUED_S = 180.0
SOURCE = Path(__file__).with_name("set_clock.c")


class Clock:
    """The wall clock of one cluster, or of one program.

    Args:
        folder: that every user may read.
        name: of the clock's file there.
    """

    def __init__(self, folder: Path, name: str = "offset") -> None:
        self._file, self._library = folder / name, folder / "set_clock.so"
        if not self._library.exists():
            compile_ = ("gcc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(SOURCE))
            subprocess.run([*compile_, "-ldl"], check=True)
        self.ahead_s = self.latest_s = 0
        self._file.write_bytes(bytes(8))
        self._file.chmod(0o644)

    def set(self, ahead_s: int, settle_s: float = 2.0) -> None:
        """Set it this much ahead of the machine's, and wait until every daemon has looked at it."""
        self.ahead_s, self.latest_s = ahead_s, max(ahead_s, self.latest_s)
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", ahead_s))
        time.sleep(settle_s)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "SET_CLOCK_FILE": str(self._file)}

    def plan(self, plan: ClusterPlan) -> ClusterPlan:
        """Return a plan under this clock, without Prolog and Epilog.

        slurmd measures how long they take by the wall clock. One that runs when the clock is set
        has failed, so Slurm drains the node and holds the job for good, with Roost or without.
        """
        hooks = replace(plan.hooks, prolog=None, epilog=None, task_prolog=None)
        return replace(plan, environment=self.environment, hooks=hooks)


class OtherHost:
    """Slurm's commands as roostd runs them, which may take credentials of a munged of its own.

    Args:
        folder: that every user may read.
    """

    def __init__(self, folder: Path) -> None:
        self.bin, self._conf, self._home = folder / "bin", folder / "slurm.conf", folder / "munge"
        self.clock = Clock(folder, "other")
        self.bin.mkdir()
        for name in ("scontrol", "squeue"):
            program = self.bin / name
            own = f"[ -f {self._conf} ] && export SLURM_CONF={self._conf}"
            program.write_text(f'#!/bin/sh\n{own}\nexec {shutil.which(name)} "$@"\n')
            program.chmod(0o755)

    @contextlib.contextmanager
    def munged(self, slurm: LocalSlurm) -> Iterator[None]:
        """Let roostd's commands take their credentials from another munged with the same key."""
        shutil.copytree(
            slurm.folder.munge_socket.parent, self._home, ignore=_sockets, dirs_exist_ok=True
        )
        for path in (self._home, self._home / "key"):
            shutil.chown(path, "munge", "munge")
        user = pwd.getpwnam("munge")
        argv = ["munged", "--foreground", "--force", f"--key-file={self._home}/key"]
        argv += [
            f"--{name}={self._home}/{name[:4]}" for name in ("socket", "pid-file", "seed-file")
        ]
        with subprocess.Popen(
            argv,
            env=slurm.env | self.clock.environment,
            user=user.pw_uid,
            group=user.pw_gid,
            stderr=subprocess.DEVNULL,
        ) as munged:
            text = slurm.folder.slurm_conf.read_text()
            socket = f"{self._home}/sock"
            self._conf.write_text(text.replace(str(slurm.folder.munge_socket), socket))
            try:
                yield
            finally:
                self._conf.unlink()
                munged.kill()


def _sockets(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name != "key"]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="roost-clock-") as text:
        folder = Path(text)
        folder.chmod(0o755)  # slurmctld and munged, other users, read the files
        yield folder


@pytest.fixture(scope="module")
def host(folder: Path) -> OtherHost:
    if shutil.which("gcc") is None:
        missing("gcc is not installed")
    return OtherHost(folder)


@pytest.fixture(scope="module")
def cluster(folder: Path, host: OtherHost) -> Iterator[tuple[Stack, Clock]]:
    clock, settings = Clock(folder), {"slurm": {"bin_dir": str(host.bin)}}
    try:
        with Stack(NODES, lease_s=LEASE_S, settings=settings, amend_plan=clock.plan) as stack:
            yield stack, clock
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.fixture
def site(cluster: tuple[Stack, Clock]) -> Iterator[tuple[Stack, Clock]]:
    """The cluster without jobs, its clock never behind what it was: also after a failed test."""
    stack, clock = cluster
    try:
        yield cluster
    finally:
        if clock.ahead_s < clock.latest_s:
            clock.set(clock.latest_s)
        clear(stack)


def test_every_job_runs_when_the_clock_is_set_forward(
    site: tuple[Stack, Clock],
) -> None:
    stack, clock = site
    for _ in range(2):
        jobs = {submit(stack.slurm, "--gres=gpu:8", command="sleep 6"): 8 for _ in range(2)}
        jobs |= {submit(stack.slurm, f"--gres=gpu:{count}"): count for count in (2, 4, 8)}
        clock.set(clock.ahead_s + HOUR_S)
        jobs |= {submit(stack.slurm, "--gres=gpu:3"): 3}
        wait_until_over(stack.slurm, jobs, REQUEUED_S)
        assert_all_completed(stack.slurm, jobs)
    assert "wall_clock_set" in stack.log("roostd")


def test_a_begin_time_holds_by_the_clock_that_is_set(site: tuple[Stack, Clock]) -> None:
    stack, clock = site
    job_id = submit(stack.slurm, "--begin=now+1800", "--gres=gpu:2")
    others = {submit(stack.slurm, f"--gres=gpu:{count}"): count for count in (1, 8, 3)}
    wait_until_over(stack.slurm, others, 120.0)
    assert_all_completed(stack.slurm, others)
    assert job_states(stack.slurm)[job_id] == "PENDING"
    clock.set(clock.ahead_s + HOUR_S)
    wait_until_over(stack.slurm, [job_id], 120.0)
    assert_all_completed(stack.slurm, {job_id: 2})


def test_no_job_is_lost_while_the_clock_is_set_back(site: tuple[Stack, Clock]) -> None:
    stack, clock = site
    clock.set(clock.ahead_s + HOUR_S)
    jobs = {submit(stack.slurm, "--gres=gpu:8", command="sleep 4"): 8 for _ in range(3)}
    clock.set(clock.ahead_s - HOUR_S)
    jobs |= {submit(stack.slurm, f"--gres=gpu:{count}"): count for count in (2, 3)}
    time.sleep(2 * LEASE_S)
    assert jobs.keys() <= job_states(stack.slurm).keys()
    assert is_served(stack)
    clock.set(clock.latest_s)
    wait_until_over(stack.slurm, jobs, 120.0)
    assert_all_completed(stack.slurm, jobs)


def is_served(stack: Stack) -> bool:
    """Whether roostd answers."""
    return bool(stack.operator().GetStatus(operator_pb2.GetStatusRequest(), timeout=60.0).version)


def test_credentials_of_a_clock_that_differs_stop_roost_and_no_job(
    site: tuple[Stack, Clock], host: OtherHost
) -> None:
    stack, clock = site
    host.clock.set(clock.ahead_s - 2 * HOUR_S)  # they have expired
    with host.munged(stack.slurm):
        wait_for_slurm(stack, is_lost=True)
        host.clock.set(clock.ahead_s + 2 * HOUR_S)  # they are from the future
        jobs = {submit(stack.slurm, f"--gres=gpu:{count}"): count for count in (2, 3)}
        wait_until_over(stack.slurm, jobs, 120.0)
        assert_all_completed(stack.slurm, jobs)
        assert stack.operator().GetStatus(operator_pb2.GetStatusRequest()).slurm_fault
        assert "Expired credential" in stack.slurm.controller_log
        assert "Rewound credential" in stack.slurm.controller_log
    wait_for_slurm(stack, is_lost=False)
    jobs = {submit(stack.slurm, "--gres=gpu:4"): 4}
    wait_until_over(stack.slurm, jobs, 120.0)
    assert_all_completed(stack.slurm, jobs)


def wait_for_slurm(stack: Stack, *, is_lost: bool) -> None:
    """Wait until roostd says that Slurm does not answer it, or does again."""
    deadline_s = time.monotonic() + 90.0
    while bool(stack.operator().GetStatus(operator_pb2.GetStatusRequest()).slurm_fault) != is_lost:
        assert time.monotonic() < deadline_s, stack.log("roostd")[-2000:]
        time.sleep(0.2)
