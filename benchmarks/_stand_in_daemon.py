"""A whole daemon in a process of its own, on a Slurm in memory, for benchmarks to load.

Run as a program it is that process: it prints one line of JSON once it serves, then one for each
line that it reads: `submit N`, `end N`, `reload [MODE]`, `reset`, `figures`; the end of its input
ends it.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_START_S, _ANSWER_S = 120.0, 120.0


class StandInDaemon:
    """The process, seen from the benchmark; use it as a context manager.

    Args:
        node_count: nodes of eight GPUs, n0, n1, ...
        waiting_count: jobs that wait for more GPUs than are free when the daemon starts.
        running_count: jobs that run by then.
        program: what runs in the process; this module by default.
        settings: more of roostd's configuration, by section.

    Attributes:
        ready: what the process printed when it served.
        started_s: when it was started, by time.monotonic.
    """

    def __init__(
        self,
        node_count: int,
        waiting_count: int = 0,
        settings: dict[str, object] | None = None,
        running_count: int = 0,
        program: str = __file__,
    ) -> None:
        counts = [str(count) for count in (node_count, waiting_count, running_count)]
        arguments = [*counts, json.dumps(settings or {})]
        self._argv = [sys.executable, program, *arguments]
        self._process: subprocess.Popen[str] | None = None
        self.ready: dict[str, Any] = {}
        self.started_s = 0.0

    def __enter__(self) -> Self:
        self.started_s = time.monotonic()
        self._process = subprocess.Popen(
            self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ready = self._answer()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(30.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @property
    def pid(self) -> int:
        """Return the process id of the daemon."""
        assert self._process is not None
        return self._process.pid

    @property
    def operator(self) -> str:
        """Return the address for people."""
        return f"unix:{self.ready['operator_socket']}"

    @property
    def probes(self) -> str:
        """Return HOST:PORT for probes."""
        return f"127.0.0.1:{self.ready['probe_port']}"

    def tell(self, line: str) -> dict[str, Any]:
        """Send a command, and return what the process answers."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the daemon ended with {self._process.wait()}; its log is above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has used, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def open_file_count(pid: int) -> int:
    """Return how many files a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


# -- the process itself ----------------------------------------------------------------------


def _config(folder: str, node_count: int, settings: dict[str, Any]) -> Any:
    from roostd.config.config import Config

    return Config.model_validate(
        {
            "mode": "enforce",
            "listen": {"probes": "127.0.0.1:0", "max_node_count": node_count + 100},
            "paths": {"runtime_dir": f"{folder}/run", "state_dir": f"{folder}/state"},
            "policy": {"model": "none"},
            "eta": {"enabled": False},
            "log": {"level": "error"},
        }
        | settings
    )


async def serve(
    node_count: int, waiting_count: int, running_count: int, settings: dict[str, Any]
) -> None:
    """Run the daemon until the input ends."""
    from _crowded_slurm import CrowdedSlurm
    from prometheus_client import CollectorRegistry

    from roost_engine.testing import builders
    from roost_slurm.hooks import spool
    from roostd.app.daemon import Daemon

    with tempfile.TemporaryDirectory(prefix="roost-bench-") as folder:
        config = _config(folder, node_count, settings)
        slurm = CrowdedSlurm([builders.node(f"n{index}", 8) for index in range(node_count)])
        slurm.fill(waiting_count, running_count)
        spool_file = config.paths.runtime_dir / "spool" / "events"

        def tell(event: spool.SpoolEvent) -> None:
            with contextlib.suppress(FileNotFoundError):
                spool.append(spool_file, event)

        slurm.listeners.append(tell)
        configs = [config]
        daemon = Daemon(
            config,
            lambda: configs[-1],
            slurm=slurm,
            environ={},
            registry=CollectorRegistry(),
            handles_signals=False,
        )
        began_s = time.monotonic()
        task = asyncio.create_task(daemon.run())
        started = asyncio.create_task(daemon.started.wait())
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED, timeout=_START_S)
        if task.done():
            await task
        ready = {
            "operator_socket": str(config.operator_socket),
            "probe_port": daemon.parts.servers.probe_port,
            "state_dir": str(config.paths.state_dir),
            "started_after_s": time.monotonic() - began_s,
        }
        if slurm.has_room:
            ready["first_decision_s"] = await _first_decision_s(daemon, began_s)
        print(json.dumps(ready), flush=True)
        try:
            await _obey(daemon, slurm, configs)
        finally:
            daemon.stop()
            await asyncio.wait_for(task, 60.0)


async def _first_decision_s(daemon: Any, began_s: float) -> float:
    def count() -> float:
        values: list[float] = [
            sample.value
            for family in daemon.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "roost_decisions_total"
        ]
        return sum(values)

    while not count():  # noqa: ASYNC110  nothing tells of a decision
        await asyncio.sleep(0.01)
    return time.monotonic() - began_s


async def _obey(daemon: Any, slurm: Any, configs: list[Any]) -> None:
    """Do what the lines of standard input say."""
    from roostd.config.config import Mode

    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        verb, _, count = line.strip().partition(" ")
        answer: dict[str, object] = {}
        match verb:
            case "submit":
                for number in range(int(count)):
                    slurm.submit(gpus=1 + number % 8, user_id=1_000 + number % 50)
            case "end":
                answer = {"ended": slurm.end_some(int(count))}
            case "reload":
                if count:
                    configs.append(configs[-1].model_copy(update={"mode": Mode(count)}))
                daemon.stalls.reset()
                began_s = time.monotonic()
                engine = daemon.state.engine
                daemon.reload()
                while daemon.state.engine is engine:  # noqa: ASYNC110  nothing tells of it
                    await asyncio.sleep(0.005)
                await asyncio.sleep(0.5)
                answer = {"reload_s": time.monotonic() - began_s - 0.5}
            case "reset":
                daemon.stalls.reset()
        value = daemon.metrics.registry.get_sample_value
        answer |= {
            "samples": value("roost_telemetry_samples_total") or 0.0,
            "streams": value("roost_probe_streams") or 0.0,
            "longest_stall_ms": daemon.stalls.longest_s * 1e3,
            "longest_turn_cpu_ms": daemon.stalls.longest_cpu_s * 1e3,
            "jobs": slurm.job_count,
            "running": slurm.running_count,
            "stand_in_cpu_s": slurm.own_cpu_s,
        }
        print(json.dumps(answer), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("node_count", type=int)
    parser.add_argument("waiting_count", type=int)
    parser.add_argument("running_count", type=int)
    parser.add_argument("settings", type=json.loads)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the benchmark ends it
    # All probes are on this machine here, so what each host may do is what all nodes may.
    from roostd.ops.event_loop import DaemonLoop
    from roostd.ops.files import raise_file_limit
    from roostd.ops.grpc_environment import prepare_grpc
    from roostd.rpc.access import peers

    prepare_grpc()
    raise_file_limit()
    everyone = float(options.node_count + 200)
    vars(peers).update(HELLO_BURST_COUNT=everyone, MOST_SILENT_STREAMS=int(everyone))
    counts = options.node_count, options.waiting_count, options.running_count
    with asyncio.Runner(loop_factory=DaemonLoop) as runner:
        runner.run(serve(*counts, options.settings))


if __name__ == "__main__":
    main()
