"""How fast the simulator replays a trace through the engine: FIFO and consolidation, one core.

2,048 GPUs: 256 nodes of eight, NVSwitch, sixteen nodes to a rack. Without `--trace` the jobs are
drawn like Helios'. The arrivals are stretched to an offered load of 0.95 in either case. Seconds
are those of the simulation and its figures; making or reading the trace is not counted.
"""

import argparse
import sys
from pathlib import Path

import _harness

from roost_engine.testing.builders import nvswitch
from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.cluster_spec import ClusterSpec, NetworkTier, NodeKind, TierSpec, make_racks
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.formats import load_trace
from roost_sim.traces.generator import generate
from roost_sim.traces.trace import Trace
from roost_sim.worlds.world_spec import Speed, WorldSpec

NODE_COUNT, GPUS_PER_NODE, NODES_PER_RACK = 256, 8, 16
LOAD = 0.95


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=_harness.whole, default=10_000)
    parser.add_argument("--trace", type=Path, help="its first jobs, instead of drawn ones")
    parser.add_argument("--policy", default="fifo")
    parser.add_argument("--seed", type=_harness.whole_or_0, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    cluster = _cluster()
    trace = _trace(options.trace, options.jobs, options.seed, cluster.gpu_count)
    run = Run(
        trace=trace,
        cluster=cluster,
        policy=find_policy(options.policy),
        world=WorldSpec(speed=Speed.TRACE),
        seed=options.seed,
    )
    report = simulate(run)
    figures = {
        "jobs": len(trace),
        "seconds": round(report.wall_s, 3),
        "jobs_per_s": round(len(trace) / report.wall_s, 1),
        "rss_mb": _harness.peak_rss_mb(),
        "events": report.outcome.event_count,
        "completed": report.metrics.completed,
        "avg_queue_s": report.metrics.avg_queue_s,
        "policy": options.policy,
    }
    _harness.report(figures, as_json=options.json)
    return 0


def _trace(path: Path | None, job_count: int, seed: int, gpu_count: int) -> Trace:
    if path is None:
        return generate(HELIOS, job_count, seed).at_load(LOAD, gpu_count)
    trace = load_trace(path).trace.fitting(gpu_count).limit(job_count)
    return trace.at_load(LOAD, gpu_count)


def _cluster() -> ClusterSpec:
    kind = NodeKind(name="nvswitch8", links=nvswitch(GPUS_PER_NODE), cpu_count=128)
    racks = {f"r{rack:02}": NODES_PER_RACK for rack in range(NODE_COUNT // NODES_PER_RACK)}
    tier = TierSpec(bandwidth_bytes_per_s=25e9)  # jobs run at rate 1: it makes no difference
    return ClusterSpec(
        name="benchmark",
        source="made up",
        nodes=make_racks(kind, racks),
        tiers=dict.fromkeys(NetworkTier, tier),
    )


if __name__ == "__main__":
    sys.exit(main())
