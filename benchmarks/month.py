"""How long the simulation of a whole month takes: with and without preemption, one core.

The cluster is the preset `venus`, 133 nodes of eight GPUs, with shared links and measured profiles.
Without `--trace` the jobs are drawn as by `roost-sim trace generate --like helios`. The arrivals
are stretched to the offered load in either case. Seconds are those of the simulation and its
figures; making or reading the trace is not counted.
"""

import argparse
import sys
import time
from pathlib import Path

import _harness

from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.presets import preset
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.fitted_histories import HISTORIES
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.formats import load_trace
from roost_sim.traces.histories import generate_history
from roost_sim.traces.trace import Trace

POLICIES = ("roost-no-preemption", "roost")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=_harness.whole, default=25_600)
    parser.add_argument("--trace", type=Path, help="its first jobs, instead of drawn ones")
    parser.add_argument("--load", type=_harness.number, default=1.1, help="offered load")
    parser.add_argument("--policies", default=",".join(POLICIES), help="names, by commas")
    parser.add_argument("--seed", type=_harness.whole_or_0, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    cluster = preset("venus")
    trace = _trace(options.trace, options.jobs, options.seed, cluster.gpu_count)
    trace = trace.at_load(options.load, cluster.gpu_count)
    runs = {}
    for name in options.policies.split(","):
        run = Run(trace=trace, cluster=cluster, policy=find_policy(name), seed=options.seed)
        began_s = time.process_time()
        report = simulate(run)
        runs[name] = {
            "seconds": round(report.wall_s, 3),
            "cpu_s": round(time.process_time() - began_s, 3),
            "events": report.outcome.event_count,
            "completed": report.metrics.completed,
            "preemptions": report.metrics.preemptions,
            "avg_jct_s": report.metrics.avg_jct_s,
        }
    figures = {
        "jobs": len(trace),
        "gpus": cluster.gpu_count,
        "load": options.load,
        "rss_mb": _harness.peak_rss_mb(),
        "runs": runs,
    }
    _harness.report(figures, as_json=options.json)
    return 0


def _trace(path: Path | None, job_count: int, seed: int, gpu_count: int) -> Trace:
    if path is None:
        history = HISTORIES["helios"]
        return generate_history(HELIOS, history, job_count, seed, max_gpu_count=gpu_count)
    return load_trace(path).trace.fitting(gpu_count).limit(job_count)


if __name__ == "__main__":
    sys.exit(main())
