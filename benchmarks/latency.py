"""What Roost adds to the start of a job on real Slurm, and what job_submit.lua costs slurmctld.

Two clusters run side by side, alike but for Roost, hooks included. Jobs go to them in turn at
random moments: slurmctld starts batch jobs once a second, so a loop that waits for each job would
lock on to that beat and measure its own phase. A start is the time from calling sbatch to the
first line of the script.
"""

import argparse
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import _harness

from roost_demo.stack import Stack
from roost_slurm.hooks import heartbeat
from roost_slurm.hooks.heartbeat import Heartbeat
from roost_slurm.site import submit_script
from roost_slurm.testing import submit_cost
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.local_slurm import LocalSlurm

WARM_UP_COUNT = 5
MEAN_PAUSE_S = 0.25  # between two submissions; each cluster gets every second one
GPU_COUNTS = (1, 2, 1, 4)  # small enough that no job ever waits for a free GPU
SCRIPT = "date +%s.%N"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=_harness.whole, default=100, help="jobs on each cluster")
    parser.add_argument(
        "--seed", type=_harness.whole_or_0, default=0, help="of the moments of submission"
    )
    parser.add_argument(
        "--calls", type=_harness.whole, default=1000, help="calls of job_submit.lua"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    _harness.stop_on_signals()
    plain_s, roost_s = measure_starts(options.jobs, options.seed)
    lua_s = measure_script(options.calls)
    _harness.report(
        {
            "plain_median_s": statistics.median(plain_s),
            "roost_median_s": statistics.median(roost_s),
            "added_median_s": statistics.median(roost_s) - statistics.median(plain_s),
            "added_mean_s": statistics.mean(roost_s) - statistics.mean(plain_s),
            "plain_p90_s": statistics.quantiles(plain_s, n=10)[-1],
            "roost_p90_s": statistics.quantiles(roost_s, n=10)[-1],
            "job_submit_median_ms": statistics.median(lua_s) * 1e3,
            "job_submit_p99_ms": statistics.quantiles(lua_s, n=100)[-1] * 1e3,
            "jobs": options.jobs,
            "calls": options.calls,
        },
        as_json=options.json,
    )


def measure_starts(job_count: int, seed: int) -> tuple[list[float], list[float]]:
    """Seconds from sbatch to the script's first line: (plain Slurm, with Roost)."""
    generator = random.Random(seed)
    with Stack() as stack, LocalSlurm(ClusterPlan.uniform()) as plain:
        clusters = (plain, stack.slurm)
        calls: tuple[dict[str, float], ...] = ({}, {})
        for number in range(2 * (WARM_UP_COUNT + job_count)):
            time.sleep(generator.uniform(0.0, 2 * MEAN_PAUSE_S))
            cluster, called_s = clusters[number % 2], time.time()
            gpu_count = GPU_COUNTS[number // 2 % len(GPU_COUNTS)]
            calls[number % 2][cluster.submit(f"--gres=gpu:{gpu_count}", script=SCRIPT)] = called_s
        plain_s, roost_s = map(starts, clusters, calls)
    return plain_s[WARM_UP_COUNT:], roost_s[WARM_UP_COUNT:]


def starts(cluster: LocalSlurm, calls: dict[str, float]) -> list[float]:
    """Return how long each job took from its call of sbatch to its first line."""
    for job_id in calls:
        cluster.wait_for_state(job_id, "COMPLETED")
    return [float(cluster.output(job_id)) - called_s for job_id, called_s in calls.items()]


def measure_script(call_count: int) -> list[float]:
    """CPU seconds of each call of job_submit.lua inside a real slurmctld, ascending."""
    with tempfile.TemporaryDirectory() as folder:
        beat, spool = Path(folder, "heartbeat"), Path(folder, "events")
        Path(folder).chmod(0o755)
        spool.touch()
        shutil.chown(spool, "slurm")
        heartbeat.write(beat, Heartbeat(at_epoch_s=int(time.time()), lease_s=60, enforce=("*",)))
        script = submit_script.render(beat, spool)
        return submit_cost.measure_s(script, "--gres=gpu:2", call_count=call_count)


if __name__ == "__main__":
    main()
