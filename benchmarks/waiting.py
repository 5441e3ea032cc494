"""How long roostd's event loop stalls with a crowd of waiting jobs: at rest, GetStatus, reloads.

The daemon runs on a Slurm in memory in a process of its own, with all GPUs in use. Each stall is
the longest delay of the loop in that phase, as the metric roost_loop_stall_longest_seconds has it;
beside it the CPU time of the longest turn, which other programs on the machine do not lengthen.
The stalls and turns count the stand-in's own work too, in slices of up to 16 ms; the CPU use does
not.
"""

import argparse
import time

import _harness
import grpc
from _stand_in_daemon import StandInDaemon, cpu_s

from roost_proto.v1 import operator_pb2, operator_pb2_grpc

STATUS_COUNT = 20
_SETTLE_S, _STILL_S = 600.0, 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=_harness.whole, default=1_000)
    parser.add_argument("--jobs", type=_harness.whole, default=20_000, help="waiting jobs")
    parser.add_argument(
        "--seconds", type=_harness.number, default=20.0, help="with a submission each second"
    )
    parser.add_argument("--eta", action="store_true", help="with forecasts, as by default")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.nodes, options.jobs, options.seconds, with_eta=options.eta)
    _harness.report(figures, as_json=options.json)


def measure(
    node_count: int, job_count: int, seconds: float, *, with_eta: bool
) -> dict[str, object]:
    """Return the figures of one size."""
    # What the nodes hold: eight GPUs a node, and 4.5 GPUs a job on average.
    running_count = node_count * 8 // 4
    settings: dict[str, object] = {"eta": {"enabled": with_eta}}
    with StandInDaemon(node_count, job_count, settings, running_count) as daemon:
        _settle(daemon)
        began = daemon.tell("reset")
        began_cpu_s, began_s = cpu_s(daemon.pid), time.monotonic()
        while time.monotonic() < began_s + seconds:
            daemon.tell("submit 1")
            time.sleep(1.0)
        steady = daemon.tell("figures")
        took_s, used_s = time.monotonic() - began_s, cpu_s(daemon.pid) - began_cpu_s
        stand_in_s = steady["stand_in_cpu_s"] - began["stand_in_cpu_s"]
        daemon.tell("reset")
        waits_s = _status_waits_s(daemon)
        asked = daemon.tell("figures")
        reloaded = daemon.tell("reload")
        time.sleep(_STILL_S)  # the engine is given the jobs, and the leases are renewed
        changed = daemon.tell("reload advise")
    return {
        "nodes": node_count,
        "jobs": job_count,
        "cpu_cores": (used_s - stand_in_s) / took_s,
        "stand_in_cores": stand_in_s / took_s,
        "steady_stall_ms": steady["longest_stall_ms"],
        "steady_turn_cpu_ms": steady["longest_turn_cpu_ms"],
        "status_p50_ms": _harness.percentile(waits_s, 50) * 1e3,
        "status_max_ms": max(waits_s) * 1e3,
        "status_stall_ms": asked["longest_stall_ms"],
        "status_turn_cpu_ms": asked["longest_turn_cpu_ms"],
        "reload_s": reloaded["reload_s"],
        "reload_stall_ms": reloaded["longest_stall_ms"],
        "reload_turn_cpu_ms": reloaded["longest_turn_cpu_ms"],
        "modes_s": changed["reload_s"],
        "modes_stall_ms": changed["longest_stall_ms"],
        "modes_turn_cpu_ms": changed["longest_turn_cpu_ms"],
    }


def _settle(daemon: StandInDaemon) -> None:
    """Wait until the daemon has placed what fits: no job has started for a while."""
    end_s, running_count, changed_s = time.monotonic() + _SETTLE_S, 0.0, time.monotonic()
    while time.monotonic() < end_s:
        now_count = daemon.tell("figures")["running"]
        if now_count != running_count:
            running_count, changed_s = now_count, time.monotonic()
        elif running_count and time.monotonic() > changed_s + _STILL_S:
            return
        time.sleep(1.0)
    raise SystemExit(f"waiting.py: jobs still start after {_SETTLE_S:g} s")


def _status_waits_s(daemon: StandInDaemon) -> list[float]:
    waits_s = []
    with grpc.insecure_channel(daemon.operator) as channel:
        stub = operator_pb2_grpc.OperatorStub(channel)
        stub.GetStatus(operator_pb2.GetStatusRequest(), timeout=60.0)
        for _ in range(STATUS_COUNT):
            began_s = time.monotonic()
            stub.GetStatus(operator_pb2.GetStatusRequest(), timeout=60.0)
            waits_s.append(time.monotonic() - began_s)
            time.sleep(0.2)
    return waits_s


if __name__ == "__main__":
    main()
