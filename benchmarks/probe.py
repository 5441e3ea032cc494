"""What a probe costs its node: parent and child together, eight fake GPUs, a sample a second.

The probe is the real program on the fake driver, and streams to a daemon on a Slurm in memory. With
--processes the daemon wants to know what jobs use of the GPUs' memory, and so many processes are on
each GPU. They are of no job, so the worst is measured: GPUs that jobs share, by --every seconds.
"""

import argparse
import os
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path

import _harness
from _stand_in_daemon import StandInDaemon, cpu_s, rss_mb

from roost_probe.node.process_watch import SELDOM
from roost_probe.testing.description import NodeDescription, load_topology
from roost_probe.testing.fake_driver import FakeDriver

TOPOLOGY = "nvswitch8"
_START_S, _SETTLE_S = 60.0, 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=_harness.number, default=60.0)
    parser.add_argument(
        "--processes", type=_harness.whole_or_0, default=0, help="on each GPU; 0: not listed"
    )
    parser.add_argument(
        "--every", type=_harness.number, default=10.0, help="seconds between two lists"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.seconds, options.processes, options.every)
    _harness.report(found, as_json=options.json)


def measure(seconds: float, process_count: int, every_s: float) -> dict[str, object]:
    """Return the figures of so many seconds."""
    with (
        tempfile.TemporaryDirectory() as folder,
        StandInDaemon(1, settings=_settings(Path(folder), process_count, every_s)) as daemon,
    ):
        probe = _start(daemon.probes, Path(folder), process_count)
        try:
            end_s = time.monotonic() + _START_S
            while not daemon.tell("figures")["samples"]:
                if probe.poll() is not None or time.monotonic() > end_s:
                    raise SystemExit("probe.py: the probe sends nothing; its log is above")
                time.sleep(0.2)
            time.sleep(_SETTLE_S)
            samples, used_s = daemon.tell("figures")["samples"], _family_cpu_s(probe.pid)
            began_s = time.monotonic()
            time.sleep(seconds)
            took_s = time.monotonic() - began_s
            used_s = _family_cpu_s(probe.pid) - used_s
            sent = daemon.tell("figures")["samples"] - samples
            memory_mb = sum(rss_mb(pid) for pid in _family(probe.pid))
        finally:
            probe.terminate()
            probe.wait(20.0)
    return {
        "cpu_percent": 100.0 * used_s / took_s,
        "rss_mb": memory_mb,
        "sample_ms": 1e3 * used_s / max(sent, 1.0),
        "samples": sent,
        "seconds": took_s,
    }


def _settings(folder: Path, process_count: int, every_s: float) -> dict[str, object]:
    if not process_count:
        return {}
    pairs = folder / "pairs.csv"
    pairs.write_text("model,beside,speed,spread\na,a,0.95,0.02\n")
    # A GPU that no jobs share is listed at each sixth interval.
    telemetry = {"process_interval_s": every_s / SELDOM}
    return {"sharing": {"enabled": True, "pairs": str(pairs)}, "telemetry": telemetry}


def _start(address: str, folder: Path, process_count: int) -> "subprocess.Popen[bytes]":
    node = NodeDescription(topology=load_topology(TOPOLOGY))
    driver = FakeDriver.create(node, folder / "gpus", seed="n0")
    there = [int(path.name) for path in Path("/proc").glob("[0-9]*")][:process_count]
    for gpu in range(driver.gpu_count):
        driver.set_processes(gpu, dict.fromkeys(there, 1 << 30))
    program = Path(sysconfig.get_path("scripts")) / "roost-probe"
    environment = dict(os.environ) | driver.environment(folder / "lib")
    return subprocess.Popen(
        [str(program), "--daemon", address, "--node", "n0"], env=environment, start_new_session=True
    )


def _family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    found = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            found += _family(int(child))
    return found


def _family_cpu_s(pid: int) -> float:
    return sum(cpu_s(each) for each in _family(pid))


if __name__ == "__main__":
    main()
