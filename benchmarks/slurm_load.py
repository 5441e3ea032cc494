"""What Roost costs slurmctld: CPU time with a crowd of waiting jobs, and a burst of submissions.

Two real clusters run side by side on the loopback interface, alike but for Roost. Both get the same
waiting jobs; the CPU time of each slurmctld is measured while nothing else happens, and then
while jobs are submitted as fast as one client can.
"""

import argparse
import re
import subprocess
import time

import _harness
from _stand_in_daemon import cpu_s

from roost_demo.stack import Stack
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.local_slurm import LocalSlurm

_SETTLE_S = 10.0  # until every job has a lease of full length


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000, help="waiting jobs")
    parser.add_argument("--burst", type=int, default=1_000, help="submissions of the burst")
    parser.add_argument("--seconds", type=float, default=60.0, help="of rest that are measured")
    parser.add_argument(
        "--array", type=int, default=1_000, help="tasks of an array (at most 1,000); 1: no arrays"
    )
    parser.add_argument("--lease", type=int, default=60, help="slurm.lease_s, in seconds")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.jobs, options.array, options.burst, options.seconds, options.lease)
    _harness.report(figures, as_json=options.json)


def measure(
    job_count: int, array_size: int, burst_count: int, seconds: float, lease_s: int
) -> dict[str, object]:
    """Return the figures of both clusters."""
    with Stack(lease_s=lease_s) as stack, LocalSlurm(ClusterPlan.uniform()) as plain:
        clusters = {"plain": plain, "roost": stack.slurm}
        for cluster in clusters.values():
            _fill(cluster, job_count, array_size)
        figures: dict[str, object] = {"jobs": job_count, "burst": burst_count, "lease_s": lease_s}
        time.sleep(_SETTLE_S)
        update_count = _update_count(stack.slurm)
        used_s = {name: cpu_s(cluster.controller_pid) for name, cluster in clusters.items()}
        time.sleep(seconds)
        for name, cluster in clusters.items():
            percent = 100.0 * (cpu_s(cluster.controller_pid) - used_s[name]) / seconds
            figures[f"{name}_cpu_percent"] = percent
        figures["updates_per_s"] = (_update_count(stack.slurm) - update_count) / seconds
        bursts = {name: _burst_s(cluster, burst_count) for name, cluster in clusters.items()}
    plain_percent, roost_percent = figures["plain_cpu_percent"], figures["roost_cpu_percent"]
    assert isinstance(plain_percent, float)
    assert isinstance(roost_percent, float)
    return figures | {
        "added_cpu_percent": roost_percent - plain_percent,
        "plain_burst_s": bursts["plain"],
        "roost_burst_s": bursts["roost"],
        "burst_ratio": bursts["roost"] / bursts["plain"],
    }


def _fill(cluster: LocalSlurm, job_count: int, array_size: int) -> None:
    """Submit jobs that fill the GPUs, and then the crowd, as arrays that are quick to submit."""
    for node in cluster.plan.nodes:
        cluster.submit(f"--gres=gpu:{node.gpu_count}", script="sleep 3600")
    if array_size == 1:
        _burst_s(cluster, job_count)
        return
    while job_count > 0:
        size = min(job_count, array_size)
        cluster.submit(f"--array=1-{size}", "--gres=gpu:4", script="sleep 1")
        job_count -= size


def _update_count(cluster: LocalSlurm) -> int:
    """Return how many updates of jobs slurmctld has been asked for."""
    match = re.search(r"REQUEST_UPDATE_JOB\s.*count:(\d+)", cluster.run("sdiag"))
    return int(match[1]) if match else 0


def _burst_s(cluster: LocalSlurm, count: int) -> float:
    """Return how long a client takes to submit so many jobs, one after the other."""
    script = "for i in $(seq $0); do sbatch -Q --gres=gpu:4 --wrap true || exit 1; done"
    began_s = time.monotonic()
    subprocess.run(
        ["sh", "-c", script, str(count)],
        env=cluster.env,
        cwd=cluster.folder.root / "work",
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.monotonic() - began_s


if __name__ == "__main__":
    main()
