"""Start and stop everything that one machine needs to show Roost at work.

Real slurmctld and slurmds on loopback, a probe a node on the fake NVML driver, and roostd, each a
process of its own. The demonstration, the end-to-end tests and benchmarks/latency.py run on it.
"""

import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
import yaml

from roost_probe.testing.description import NodeDescription, load_topology
from roost_probe.testing.fake_driver import FakeDriver
from roost_probe.testing.library import LIBRARY_FOLDER
from roost_proto.v1 import operator_pb2, operator_pb2_grpc
from roost_slurm.shipped import read_shipped
from roost_slurm.site import submit_script
from roost_slurm.testing.cluster_plan import ClusterPlan, HookPlan, NodePlan
from roost_slurm.testing.local_slurm import LocalSlurm
from roost_slurm.testing.parent_watch import ParentWatch
from roost_slurm.testing.ports import claim

START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 10.0
_POLL_S = 0.1


class StackFailed(Exception):
    """A part of the stack did not come up; carries the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """One node: its name and a sample topology, or the path of a `nvidia-smi topo -m` text."""

    name: str
    topology: str
    cpu_count: int = 32
    features: tuple[str, ...] = ()

    def describe(self) -> NodeDescription:
        """Return the node as the fake driver knows it."""
        return NodeDescription(topology=load_topology(self.topology))


DEMO_NODES = (
    NodeKind(name="n1", topology="bridges8"),
    NodeKind(name="n2", topology="bridges8"),
    NodeKind(name="n3", topology="cube8"),
    NodeKind(name="n4", topology="nvswitch8"),
)


class Stack:
    """A running Roost; use it as a context manager.

    Attributes:
        nodes: what was asked for.
        slurm: the cluster.
        drivers: the fake driver of each node, to change load or break GPUs while all runs.
        folder: logs, sockets and configuration; gone after stop().
    """

    def __init__(
        self,
        nodes: Sequence[NodeKind] = DEMO_NODES,
        *,
        model_names: Sequence[str] = (),
        counts_models: bool = False,
        lease_s: int = 20,
        settings: Mapping[str, object] | None = None,
        amend_plan: Callable[[ClusterPlan], ClusterPlan] = lambda plan: plan,
        has_page: bool = False,
    ) -> None:
        """Describe what will run; start() starts it.

        Args:
            nodes: the nodes of the cluster.
            model_names: GPU models that users may name: features of nodes.
            counts_models: whether each model has a count-only gres of its name, to limit it by.
            lease_s: the lease of a waiting job.
            settings: more of roostd's configuration, by section.
            amend_plan: adds to the plan of the Slurm cluster, before it starts.
            has_page: whether roostd serves its web page.
        """
        self._has_page = has_page
        self._amend_plan = amend_plan
        self._settings = dict(settings or {})
        self.nodes = tuple(nodes)
        self._model_names = tuple(model_names)
        self._counts_models = counts_models
        self._lease_s = lease_s
        self._exit = ExitStack()
        self._probes: dict[str, subprocess.Popen[bytes]] = {}
        self._roostd: subprocess.Popen[bytes] | None = None
        self._probe_port = 0
        self._operator: operator_pb2_grpc.OperatorStub | None = None
        self.drivers: dict[str, FakeDriver] = {}

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

    # -- life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Bring everything up: a few seconds, most of them Slurm's and Python's imports.

        Raises:
            LocalSlurmUnavailable: Slurm cannot run here.
            StackFailed: a part did not come up; nothing is left running.
        """
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="roost-demo-"))
            self._exit.callback(ParentWatch(self.folder).stop)
            self._exit.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.folder.chmod(0o755)  # slurmctld, another user, reads the heartbeat
            self._start_slurm()
            self._probe_port, lock = _claim_ports()
            self._exit.callback(lock.close)
            for node in self.nodes:
                self.start_probe(node.name)
            self.start_roostd()
            self._wait_until(self._all_probes_report, "not every probe reports")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all of it and remove every file. May be called twice."""
        for name in list(self._probes):
            self.stop_probe(name)
        self.stop_roostd()
        self._exit.close()

    def start_roostd(self, **environment: str) -> None:
        """Start the daemon and wait until it serves and says so to job_submit.lua."""
        (self.folder / "heartbeat").unlink(missing_ok=True)  # left by a daemon that was killed
        config = self._write_config(conf=str(self.slurm.folder.slurm_conf))
        self._roostd = self._spawn(
            "roostd", "--config", str(config), log="roostd", env=self.slurm.env | environment
        )
        self._wait_until(self._serves, "roostd does not serve")

    def stop_roostd(self, sign: int = signal.SIGTERM) -> None:
        """Stop the daemon, by default with SIGTERM; SIGKILL ends it at an arbitrary instant."""
        _end(self._roostd, sign)
        self._roostd = self._operator = None

    @property
    def roostd_pid(self) -> int:
        """Process id of the daemon."""
        if self._roostd is None:
            raise StackFailed("roostd is not running")
        return self._roostd.pid

    def start_probe(self, name: str) -> None:
        """Start the probe of a node, on the driver state that the node already has."""
        node = next(node for node in self.nodes if node.name == name)
        state = self.folder / f"{name}.gpus"
        agent_socket = self.folder / "nodes" / name / "agent.sock"
        agent_socket.parent.mkdir(parents=True, exist_ok=True)
        if name not in self.drivers:
            self.drivers[name] = FakeDriver.create(node.describe(), state, seed=name)
        self._probes[name] = self._spawn(
            "roost-probe",
            "--daemon",
            f"127.0.0.1:{self._probe_port}",
            "--node",
            name,
            "--agent-socket",
            str(agent_socket),
            log=f"probe.{name}",
            env=dict(os.environ) | self.drivers[name].environment(self.library_folder),
        )

    def stop_probe(self, name: str, sign: int = signal.SIGTERM) -> None:
        """End the probe of a node."""
        _end(self._probes.pop(name, None), sign)

    # -- questions ---------------------------------------------------------------------------

    @property
    def operator_address(self) -> str:
        """What `roostctl --daemon` takes."""
        return f"unix:{self.folder}/operator.sock"

    @property
    def library_folder(self) -> Path:
        """Where the fake driver's library is, or will be compiled."""
        return Path(os.environ.get(LIBRARY_FOLDER) or self.folder / "lib")

    @property
    def page_url(self) -> str:
        """Where roostd's web page is; empty where it serves none."""
        return f"http://{self._page_address}" if self._has_page else ""

    @property
    def _page_address(self) -> str:
        return f"127.0.0.1:{self._probe_port + 1}"

    def operator(self) -> operator_pb2_grpc.OperatorStub:
        """Return a client for questions to the roostd that runs now."""
        if self._operator is None:
            channel = self._exit.enter_context(grpc.insecure_channel(self.operator_address))
            self._operator = operator_pb2_grpc.OperatorStub(channel)
        return self._operator

    def log(self, name: str) -> str:
        """Return what "roostd" or "probe.NODE" has logged so far."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    # -- parts -------------------------------------------------------------------------------

    def _start_slurm(self) -> None:
        self._make_spool()
        self.slurm = self._exit.enter_context(LocalSlurm(self._amend_plan(self._plan())))
        hook = self.folder / "epilog-slurmctld.sh"  # slurmctld does not tell it its slurm.conf
        export = f"export SLURM_CONF={self.slurm.folder.slurm_conf}\nPATH="
        hook.write_text(hook.read_text().replace("PATH=", export, 1))

    def _plan(self) -> ClusterPlan:
        return ClusterPlan(
            nodes=tuple(
                NodePlan(
                    name=node.name,
                    gpu_count=node.describe().topology.links.gpu_count,
                    cpu_count=node.cpu_count,
                    features=node.features,
                    counted_model=self._counted_model(node),
                )
                for node in self.nodes
            ),
            job_submit_lua=submit_script.render(
                self.folder / "heartbeat",
                self._spool,
                self._model_names,
                counts_models=self._counts_models,
            ),
            cli_filter_lua=submit_script.render_cli_filter(self._model_names),
            hooks=self._hooks(),
        )

    def _counted_model(self, node: NodeKind) -> str:
        models = [name for name in node.features if name in self._model_names]
        return models[0] if models and self._counts_models else ""

    @property
    def _spool(self) -> Path:
        return self.folder / "spool" / "events"

    def _make_spool(self) -> None:
        self._spool.parent.mkdir()
        self._spool.touch()
        for path in (self._spool.parent, self._spool):
            shutil.chown(path, "slurm")

    def _hooks(self) -> HookPlan:
        """The shipped hooks. All nodes are this machine, so each has a runtime folder by name."""
        controller, nodes = str(self.folder), f"{self.folder}/nodes/$SLURMD_NODENAME"
        return HookPlan(
            prolog=self._hook("prolog", "hook.sh", nodes),
            epilog=self._hook("epilog", "hook.sh", nodes),
            task_prolog=self._hook("task-prolog", "hook.sh", nodes),
            prolog_slurmctld=self._hook("prolog-slurmctld", "spool.sh", controller),
            epilog_slurmctld=self._hook("epilog-slurmctld", "spool.sh", controller),
        )

    def _hook(self, name: str, template: str, runtime_folder: str) -> Path:
        text = read_shipped(f"hooks/{template}")
        text = text.replace("RUNTIME_FOLDER=/run/roost", f"RUNTIME_FOLDER={runtime_folder}")
        text = text.replace("/usr/local/bin/roost-slurm", str(_program("roost-slurm")))
        hook = self.folder / f"{name}.sh"
        hook.write_text(text)
        hook.chmod(0o755)
        return hook

    def _write_config(self, **slurm: object) -> Path:
        given = self._settings.get("slurm", {})
        listen = self._settings.get("listen", {})
        assert isinstance(given, dict)
        assert isinstance(listen, dict)
        slurm = given | slurm
        settings = self._settings | {
            "cluster": "demo",
            "mode": "enforce",
            "listen": {**listen, "probes": f"127.0.0.1:{self._probe_port}"},
            "slurm": slurm | {"lease_s": self._lease_s, "model_names": list(self._model_names)},
            "paths": {"runtime_dir": str(self.folder), "state_dir": str(self.folder / "state")},
        }
        if self._has_page:
            settings["page"] = {"listen": self._page_address}
        file = self.folder / "roostd.yaml"
        file.write_text(yaml.safe_dump(settings))
        return file

    def _spawn(
        self, program: str, *options: str, log: str, env: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        with (self.folder / f"{log}.log").open("ab") as file:
            # A session of its own: Ctrl-C reaches this process only; stop() decides the order.
            return subprocess.Popen(
                [str(_program(program)), *options],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def _serves(self) -> bool:
        if self._roostd is not None and self._roostd.poll() is not None:
            raise StackFailed(f"roostd exited with {self._roostd.returncode}: {self._tail()}")
        return (self.folder / "heartbeat").exists() and self._status() is not None

    def _all_probes_report(self) -> bool:
        status = self._status()
        return status is not None and status.probe_count == len(self.nodes)

    def _status(self) -> operator_pb2.Status | None:
        with grpc.insecure_channel(self.operator_address) as channel:
            stub = operator_pb2_grpc.OperatorStub(channel)
            try:
                return stub.GetStatus(operator_pb2.GetStatusRequest(), timeout=2.0)
            except grpc.RpcError:
                return None

    def _wait_until(self, done: Callable[[], bool], complaint: str) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not done():
            if time.monotonic() > deadline:
                raise StackFailed(f"{complaint}: {self._tail()}")
            time.sleep(_POLL_S)

    def _tail(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(
            f"{log.stem}: {line}" for log in logs for line in self.log(log.stem).splitlines()[-5:]
        )


def _end(process: subprocess.Popen[bytes] | None, sign: int) -> None:
    if process is None:
        return
    process.send_signal(sign)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _program(name: str) -> Path:
    return Path(sysconfig.get_path("scripts")) / name


def _claim_ports() -> tuple[int, socket.socket]:
    """Return the first of two ports, which roostd may have again after it was killed, and a lock.

    Ports of the kernel's own choice may go to any other program meanwhile.
    """
    claimed = claim(2)
    if claimed is None:
        raise StackFailed("no port is free")
    return claimed
