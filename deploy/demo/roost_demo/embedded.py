"""The demonstration without Slurm: an in-memory stand-in, and roostd in a thread of this process.

Everything else is as on real Slurm: the probes are processes on the fake driver, roostd is the
shipped daemon behind its real gRPC services. It needs no root.
"""

import asyncio
import signal
import threading

from prometheus_client import CollectorRegistry

from roost_demo.stack import Stack
from roost_engine.domain.model import JobId, NodeName, NodeSpec
from roost_slurm.hooks import spool
from roostd.app.daemon import Daemon
from roostd.config.loaded_config import load_config
from roostd.testing.slurm_stand_in import SlurmStandIn

_CALL_TIMEOUT_S = 5.0
_STOP_TIMEOUT_S = 15.0


class EmbeddedStack(Stack):
    """A stack whose Slurm is a stand-in; it and roostd share an event loop in a thread."""

    _thread: threading.Thread | None = None

    def start_roostd(self, **environment: str) -> None:
        """Start the daemon's thread and wait until it serves."""
        quiet = ("log.level=error",)  # it logs to this process's stderr
        config = load_config(self._write_config(), flags=quiet).config
        daemon = Daemon(
            config,
            lambda: config,
            slurm=self.stand_in,
            environ=environment,
            registry=CollectorRegistry(),
            handles_signals=False,
        )
        self.loop = asyncio.new_event_loop()

        async def run() -> None:
            ticking = asyncio.create_task(self.stand_in.run())
            await daemon.run()
            ticking.cancel()

        self._daemon = daemon
        self._thread = threading.Thread(target=self.loop.run_until_complete, args=(run(),))
        self._thread.start()
        self._wait_until(self._serves, "roostd does not serve")

    def stop_roostd(self, sign: int = signal.SIGTERM) -> None:
        """Stop the daemon; `sign` is ignored, since the daemon is a thread of this process."""
        if self._thread is not None:
            self.loop.call_soon_threadsafe(self._daemon.stop)
            self._thread.join(_STOP_TIMEOUT_S)
            self._thread = None

    def _start_slurm(self) -> None:
        self.stand_in = SlurmStandIn(
            NodeSpec(
                name=NodeName(node.name),
                gpu_count=node.describe().topology.links.gpu_count,
                cpu_count=node.cpu_count,
                memory_bytes=64 << 30,
                partitions=("main",),
            )
            for node in self.nodes
        )
        spool_file = self.folder / "spool" / "events"
        spool_file.parent.mkdir()
        self.stand_in.listeners.append(lambda event: spool.append(spool_file, event))


class EmbeddedCluster:
    """Hands jobs to the stand-in, in its own thread."""

    backend = "embedded"

    def __init__(self) -> None:
        self.stack = EmbeddedStack(has_page=True)

    def submit(self, node_count: int, gpus_per_node: int, run_s: float) -> str:
        """See desk.Cluster."""

        async def submit() -> tuple[JobId, ...]:
            return self.stack.stand_in.submit(
                gpus_per_node=gpus_per_node, nodes=(node_count, node_count), run_s=run_s
            )

        call = asyncio.run_coroutine_threadsafe(submit(), self.stack.loop)
        return call.result(_CALL_TIMEOUT_S)[0]

    def allocated(self, job_id: str) -> tuple[int, ...] | None:
        """See desk.Cluster."""
        asked = self.stack.stand_in.allocation(JobId(job_id))
        shares = asyncio.run_coroutine_threadsafe(asked, self.stack.loop).result(_CALL_TIMEOUT_S)
        return shares[0].gpu_indices if shares else None
