"""Start and stop a real Slurm cluster on this machine: munged, slurmctld and a slurmd a node.

Everything is the cluster's own: run folder, MUNGE key and socket, ports, device files. Several
clusters live side by side, and beside a real one. Where the machine's name resolves to 127.0.0.1,
nothing listens outside the loopback interface.
"""

import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, repeat
from pathlib import Path
from types import TracebackType
from typing import Self

from roost_slurm.testing import cluster_plan, ports
from roost_slurm.testing.accounting import LocalAccounting
from roost_slurm.testing.availability import SEARCH_PATH, check_available
from roost_slurm.testing.cluster_plan import ClusterPlan, RunFolder
from roost_slurm.testing.job_processes import kill_jobs
from roost_slurm.testing.parent_watch import ParentWatch
from roost_slurm.text.hostlist import expand

# slurmd 24.11 always takes 10 s to register, 22.05 and 26.05 about 1 s; a busy machine is slower.
START_TIMEOUT_S = 90.0
_POLLS_S = (0.05, 0.05, 0.1, 0.1, 0.2)  # the last one again and again: each poll is a process
_FAKE_DEVICE_MAJOR = 240  # reserved for local use: no driver answers, Slurm only looks at the file


class LocalSlurmFailed(Exception):
    """A cluster did not come up, or did not do what it was asked; carries the end of the logs."""


class LocalSlurm:
    """A running cluster; use it as a context manager, or call start() and stop().

    Attributes:
        plan: what it looks like.
        folder: where its files are; gone after stop().
        accounting: the running slurmdbd, where the plan asks for one.
    """

    def __init__(self, plan: ClusterPlan) -> None:
        check_available(with_accounting=plan.accounting is not None)
        self.plan = plan
        self._folder: RunFolder | None = None
        self._first_port = 0
        self._port_lock: socket.socket | None = None
        self._munged: subprocess.Popen[bytes] | None = None
        self._controller: subprocess.Popen[bytes] | None = None
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._accounting: LocalAccounting | None = None
        self._watch: ParentWatch | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def folder(self) -> RunFolder:
        """Where the running cluster's files are."""
        if self._folder is None:
            raise LocalSlurmFailed("the cluster is not running")
        return self._folder

    @property
    def env(self) -> dict[str, str]:
        """An environment in which Slurm's commands talk to this cluster."""
        mine = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
        path = f"{mine.get('PATH', '')}:{SEARCH_PATH}".lstrip(":")
        slurms = {"PATH": path, "SLURM_CONF": str(self.folder.slurm_conf)}
        return mine | slurms | dict(self.plan.environment)

    @property
    def accounting(self) -> LocalAccounting:
        """The cluster's slurmdbd."""
        if self._accounting is None:
            raise LocalSlurmFailed("the cluster has no accounting")
        return self._accounting

    @property
    def controller_pid(self) -> int:
        """Process id of slurmctld."""
        if self._controller is None:
            raise LocalSlurmFailed("slurmctld is not running")
        return self._controller.pid

    @property
    def controller_log(self) -> str:
        """What slurmctld has logged so far."""
        return _read(self.folder.log / "slurmctld.log")

    def node_log(self, node: str) -> str:
        """Return what the slurmd of a node has logged so far."""
        return _read(self.folder.log / f"slurmd.{node}.log")

    def start(self) -> None:
        """Bring the cluster up and wait until every node is idle; about a second.

        With accounting it takes about 5 s.

        Raises:
            LocalSlurmFailed: it did not come up; nothing is left running.
        """
        if self._folder is not None:
            raise LocalSlurmFailed("the cluster is running already")
        self._folder = RunFolder(Path(tempfile.mkdtemp(prefix="roost-slurm-")))
        self._watch = ParentWatch(self._folder.root)
        try:
            accounting_port = 1 + len(self.plan.nodes)  # after slurmctld's and the nodes'
            claimed = ports.claim(accounting_port + 2)
            if claimed is None:
                raise LocalSlurmFailed("no free ports; cure: stop other clusters, or fewer nodes")
            self._first_port, self._port_lock = claimed
            self._write_files(self._first_port)
            self._start_munged()
            if self.plan.accounting is not None:
                self._start_accounting(self._first_port + accounting_port)
            self._start_controller("-c", "-i")
            for node in self.plan.nodes:
                self.start_node(node.name)
            self._wait_until_idle()
            if self._accounting is not None:
                self._wait_until(self._is_registered, "slurmctld does not register with slurmdbd")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill what start() started, the jobs too, and remove every file. May be called twice."""
        if self._folder is None:
            return
        daemons = [self._controller, *self._nodes.values(), self._munged]
        for daemon in daemons:
            if daemon is not None:
                daemon.kill()  # no state is worth saving
        for daemon in daemons:
            if daemon is not None:
                daemon.wait()
        kill_jobs(self._folder)
        if self._accounting is not None:
            self._accounting.stop()
            self._accounting = None
        self._controller = self._munged = None
        self._nodes.clear()
        if self._port_lock is not None:
            self._port_lock.close()
            self._port_lock = None
        shutil.rmtree(self._folder.root, ignore_errors=True)
        self._folder = None
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def stop_controller(self, *, kill: bool = False) -> None:
        """End slurmctld. Killed, it forgets what it had not saved yet: up to 5 s."""
        if self._controller is not None:
            self._controller.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
            self._controller.wait(timeout=START_TIMEOUT_S)
            self._controller = None

    def start_controller(self) -> None:
        """Start slurmctld from its saved state and wait until it answers."""
        self._start_controller()
        self._wait_until(self._controller_answers, "slurmctld does not answer")

    def restart_controller(self, *, kill: bool = False) -> None:
        """Stop slurmctld, start it from its saved state, wait until it answers."""
        self.stop_controller(kill=kill)
        self.start_controller()

    def start_node(self, name: str, *, booted: bool = False) -> None:
        """Start the slurmd of a node; `booted`: the node has just been powered up."""
        (self.folder.root / "spool" / name).mkdir(parents=True, exist_ok=True)
        argv = ("slurmd", "-D", "-N", name, *(["-b"] if booted else []))
        if self.plan.is_configless:
            argv = cluster_plan.configless(argv, self.folder, self._first_port)
        self._nodes[name] = self._spawn(*argv)

    def stop_node(self, name: str) -> None:
        """Kill the slurmd of a node, as a power cut would."""
        daemon = self._nodes.pop(name)
        daemon.kill()
        daemon.wait()

    def power_requests(self) -> list[tuple[str, str]]:
        """Return what Slurm's power saving has asked for so far: ("suspend" or "resume", node)."""
        lines = _read(self.folder.power_log).splitlines()
        return [(verb, node) for verb, nodes in map(str.split, lines) for node in expand(nodes)]

    def run(
        self,
        *argv: str,
        check: bool = True,
        timeout_s: float = 60.0,
        stdin: str | None = None,
        user: str | None = None,
    ) -> str:
        """Run a command against this cluster, as root or another user, and return its stdout.

        Raises:
            LocalSlurmFailed: it exited with another code than 0 and `check` is set.
        """
        if user is not None:
            argv = (*_as_user(user), *argv)
        done = subprocess.run(
            argv,
            env=self.env,
            cwd=self.folder.root / "work",
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode:
            raise LocalSlurmFailed(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
        return done.stdout

    def submit(self, *options: str, script: str = "sleep 600", user: str | None = None) -> str:
        """Submit a batch job and return its id; its output lands in `work/ID.out`."""
        script = script if script.startswith("#!") else f"#!/bin/sh\n{script}\n"
        argv = ("sbatch", "--parsable", "--output=%j.out", *options)
        return self.run(*argv, stdin=script, user=user).strip().partition(";")[0]

    def output(self, job_id: str) -> str:
        """Return what a job that submit() started has printed so far."""
        return _read(self.folder.root / "work" / f"{job_id}.out")

    def state(self, job_id: str) -> str:
        """Return a job's state as squeue names it: PENDING, RUNNING, ...; "" when unknown."""
        answer = self.run("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T", check=False)
        return answer.split("\n", maxsplit=1)[0]

    def show_job(self, job_id: str) -> str:
        """`scontrol -d -o show job`: one line, with the GPU indices as IDX."""
        return self.run("scontrol", "-d", "-o", "show", "job", job_id)

    def wait_for_state(self, job_id: str, *states: str, timeout_s: float = 60.0) -> str:
        """Wait until a job is in one of the states and return that.

        Raises:
            LocalSlurmFailed: the job reached none of them in time.
        """
        deadline, pauses = time.monotonic() + timeout_s, _pauses()
        while (state := self.state(job_id)) not in states:
            if time.monotonic() > deadline:
                wanted = " or ".join(states)
                raise LocalSlurmFailed(f"job {job_id} is {state}, not {wanted}: {self._tail()}")
            time.sleep(next(pauses))
        return state

    def _write_files(self, first_port: int) -> None:
        folder, plan = self.folder, self.plan
        folder.root.chmod(0o755)  # users slurm and munge must be able to enter
        for name in ("etc", "state", "log", "spool", "munge", "pids", "dev", "work"):
            (folder.root / name).mkdir()
        (folder.root / "work").chmod(0o1777)
        for name in ("state", "log", "pids"):
            shutil.chown(folder.root / name, "slurm")
        for index in range(plan.max_gpu_count):
            device = folder.device(index)
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(_FAKE_DEVICE_MAJOR, index))
        for verb, program in (("suspend", folder.suspend), ("resume", folder.resume)):
            program.write_text(f'#!/bin/sh\necho {verb} "$1" >>{folder.power_log}\n')
            program.chmod(0o755)
        conf = cluster_plan.slurm_conf(
            plan, folder, first_port, loopback_only=ports.own_name_is_loopback()
        )
        folder.slurm_conf.write_text(conf)
        (folder.etc / "gres.conf").write_text(cluster_plan.gres_conf(plan, folder))
        lines = ("CgroupPlugin=cgroup/v1", *plan.cgroup_lines)
        (folder.etc / "cgroup.conf").write_text("\n".join(lines) + "\n")
        if plan.racks:
            (folder.etc / "topology.conf").write_text(cluster_plan.topology_conf(plan))
        if plan.job_submit_lua is not None:
            (folder.etc / "job_submit.lua").write_text(plan.job_submit_lua)
        for name, text in plan.extra_files.items():
            (folder.etc / name).write_text(text)
        if plan.cli_filter_lua is not None:
            (folder.etc / "cli_filter.lua").write_text(plan.cli_filter_lua)

    def _start_munged(self) -> None:
        home = self.folder.munge_socket.parent
        key = home / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        for path in (home, key):
            shutil.chown(path, "munge", "munge")
        self._munged = self._spawn(
            *_as_user("munge"),
            "munged",
            "--foreground",
            "--force",  # a run folder under /tmp has parents that others may write to
            f"--key-file={key}",
            f"--socket={self.folder.munge_socket}",
            f"--pid-file={home}/pid",
            f"--seed-file={home}/seed",
            "--num-threads=2",
        )
        self._wait_until(self.folder.munge_socket.exists, "munged makes no socket")

    def _start_accounting(self, port: int) -> None:
        self._accounting = LocalAccounting(
            self.folder, self.env, slurmdbd_port=port, database_port=port + 1
        )
        self._accounting.start(self._spawn, self._wait_until)

    def _is_registered(self) -> bool:
        # Until then slurmctld knows no user and no limit.
        known = self.accounting.sacctmgr("list", "cluster", "format=controlport")
        return any(line not in ("", "0") for line in known.splitlines())

    def _start_controller(self, *options: str) -> None:
        self._controller = self._spawn("slurmctld", "-D", *options)

    def _spawn(self, *argv: str) -> subprocess.Popen[bytes]:
        # A session of its own: Ctrl-C reaches this process only, and stop() decides the order.
        with (self.folder.log / "daemons.log").open("ab") as log:
            return subprocess.Popen(
                argv,
                env=_daemon_env(self.env) | dict(self.plan.environment),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait_until_idle(self) -> None:
        self._wait_until(self._all_idle, "not every node became idle")

    def _all_idle(self) -> bool:
        states = self.run("sinfo", "-h", "-N", "-o", "%N %T", check=False).splitlines()
        return {line.partition(" ")[0] for line in states if line.endswith(" idle")} == {
            node.name for node in self.plan.nodes
        }

    def _controller_answers(self) -> bool:
        return " is UP" in self.run("scontrol", "ping", check=False)

    def _wait_until(self, done: Callable[[], bool], complaint: str) -> None:
        deadline, pauses = time.monotonic() + START_TIMEOUT_S, _pauses()
        while not done():
            dead = [d for d in self._daemons() if d.poll() is not None]
            if dead or time.monotonic() > deadline:
                raise LocalSlurmFailed(f"{complaint}: {self._tail()}")
            time.sleep(next(pauses))

    def _daemons(self) -> Iterator[subprocess.Popen[bytes]]:
        for daemon in (self._munged, self._controller, *self._nodes.values()):
            if daemon is not None:
                yield daemon
        if self._accounting is not None:
            yield from self._accounting.processes

    def _tail(self) -> str:
        logs = sorted(self.folder.log.glob("*.log"))
        return "\n".join(f"{log.name}: {line}" for log in logs for line in _last_lines(log))


def _pauses() -> Iterator[float]:
    return chain(_POLLS_S, repeat(_POLLS_S[-1]))


def _as_user(name: str) -> tuple[str, ...]:
    entry = pwd.getpwnam(name)
    return ("setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--init-groups")


def _daemon_env(env: Mapping[str, str]) -> dict[str, str]:
    # A daemon's environment reaches prologs and jobs: pass on only what is meant.
    return {key: env[key] for key in ("PATH", "SLURM_CONF", "LANG", "TZ") if key in env}


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""


def _last_lines(path: Path, count: int = 8) -> list[str]:
    return _read(path).splitlines()[-count:]
