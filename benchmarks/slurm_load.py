"""What Roost costs slurmctld: CPU time with a crowd of waiting jobs, and a burst of submissions.

Two real clusters run side by side on the loopback interface, alike but for Roost. Both get the same
waiting jobs, each a job of its own; the CPU time of each slurmctld is measured while nothing else
happens. Then one client submits jobs as fast as it can, to the two clusters in turns, so that other
load on the machine slows both.
"""

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace

import _harness
from _stand_in_daemon import cpu_s

from roost_demo.stack import Stack
from roost_slurm.testing.cluster_plan import ClusterPlan, HookPlan
from roost_slurm.testing.local_slurm import LocalSlurm

_SETTLE_S = 30.0  # first leases are renewed once
_TURN = 50  # submissions to one cluster before the other's turn
_SUBMIT_S = 3_600.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=_harness.whole, default=10_000, help="waiting jobs")
    parser.add_argument(
        "--burst", type=_harness.whole, default=1_000, help="submissions of the burst"
    )
    parser.add_argument(
        "--seconds", type=_harness.number, default=60.0, help="of rest that are measured"
    )
    parser.add_argument(
        "--lease", type=_harness.whole, default=60, help="slurm.lease_s, in seconds"
    )
    parser.add_argument(
        "--cli-filter",
        action="store_true",
        help="with cli_filter.lua, which sites need whose users name GPU models",
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    _harness.stop_on_signals()
    figures = measure(
        options.jobs, options.burst, options.seconds, options.lease, options.cli_filter
    )
    _harness.report(figures, as_json=options.json)


def measure(
    job_count: int, burst_count: int, seconds: float, lease_s: int, has_filter: bool
) -> dict[str, object]:
    """Return the figures of both clusters."""
    with Stack(lease_s=lease_s, amend_plan=_amended(has_filter)) as stack:
        alike = replace(
            stack.slurm.plan, job_submit_lua=None, cli_filter_lua=None, hooks=HookPlan()
        )
        with LocalSlurm(alike) as plain:
            clusters = {"plain": plain, "roost": stack.slurm}
            with ExitStack() as fills:
                clients = [
                    fills.enter_context(_filling(one, job_count)) for one in clusters.values()
                ]
                for client in clients:
                    _await_jobs(client)
            time.sleep(min(_SETTLE_S, seconds))
            figures = _at_rest(clusters, stack, seconds)
            figures |= _burst(clusters, stack, burst_count)
    settings = {"burst": burst_count, "lease_s": lease_s, "cli_filter": has_filter}
    return {"jobs": job_count, **settings, **figures}


def _amended(has_filter: bool) -> Callable[[ClusterPlan], ClusterPlan]:
    return lambda plan: plan if has_filter else replace(plan, cli_filter_lua=None)


def _at_rest(clusters: dict[str, LocalSlurm], stack: Stack, seconds: float) -> dict[str, object]:
    """Return the CPU use of each slurmctld, and of roostd, while no job is submitted."""
    pids = {name: cluster.controller_pid for name, cluster in clusters.items()}
    pids["roostd"] = stack.roostd_pid
    update_count = _update_count(stack.slurm)
    used_s, began_s = {name: cpu_s(pid) for name, pid in pids.items()}, time.monotonic()
    time.sleep(seconds)
    took_s = time.monotonic() - began_s
    percent = {name: 100.0 * (cpu_s(pid) - used_s[name]) / took_s for name, pid in pids.items()}
    figures: dict[str, object] = {f"{name}_cpu_percent": value for name, value in percent.items()}
    figures["updates_per_s"] = (_update_count(stack.slurm) - update_count) / took_s
    return figures | {"added_cpu_percent": percent["roost"] - percent["plain"]}


def _filling(
    cluster: LocalSlurm, job_count: int
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Submit jobs that fill the GPUs, and let a client submit the crowd."""
    for node in cluster.plan.nodes:
        cluster.submit(f"--gres=gpu:{node.gpu_count}", script="sleep 36000")
    return _submitting(cluster, job_count)


def _burst(clusters: dict[str, LocalSlurm], stack: Stack, count: int) -> dict[str, object]:
    """Return how long a client takes to submit so many jobs, one after the other, to each.

    The CPU time of slurmctld in its own turns is what a submission costs there, whatever else uses
    the cores; that of roostd is what it takes from the client on a machine that they share.
    """
    took_s, ctld_s = dict.fromkeys(clusters, 0.0), dict.fromkeys(clusters, 0.0)
    roostd_s = 0.0
    for begin in range(0, count, _TURN):
        for name, cluster in clusters.items():
            before_s, before_roostd_s = cpu_s(cluster.controller_pid), cpu_s(stack.roostd_pid)
            took_s[name] += _submit(cluster, min(_TURN, count - begin))
            ctld_s[name] += cpu_s(cluster.controller_pid) - before_s
            if name == "roost":
                roostd_s += cpu_s(stack.roostd_pid) - before_roostd_s
        print(f"{begin + _TURN} of {count}: {took_s}", file=sys.stderr)
    return {
        "plain_burst_s": took_s["plain"],
        "roost_burst_s": took_s["roost"],
        "burst_ratio": took_s["roost"] / took_s["plain"],
        "plain_burst_slurmctld_s": ctld_s["plain"],
        "roost_burst_slurmctld_s": ctld_s["roost"],
        "roost_burst_roostd_s": roostd_s,
    }


def _submit(cluster: LocalSlurm, count: int) -> float:
    """Submit jobs one after the other, and return the seconds that it took."""
    began_s = time.monotonic()
    with _submitting(cluster, count) as process:
        _await_jobs(process)
    return time.monotonic() - began_s


@contextmanager
def _submitting(cluster: LocalSlurm, count: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a client that submits jobs one after the other; stop it at the end of the context."""
    script = "for i in $(seq $0); do sbatch -Q --gres=gpu:4 --wrap true || exit 1; done"
    with subprocess.Popen(
        ["sh", "-c", script, str(count)],
        env=cluster.env,
        cwd=cluster.folder.root / "work",
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # does nothing where it has ended


def _await_jobs(process: subprocess.Popen[bytes]) -> None:
    """Wait until all jobs are submitted."""
    if status := process.wait(_SUBMIT_S):
        raise SystemExit(f"sbatch refused a job: exit code {status}; its error is above")


def _update_count(cluster: LocalSlurm) -> int:
    """Return how many updates of jobs slurmctld has been asked for."""
    match = re.search(r"REQUEST_UPDATE_JOB\s.*count:(\d+)", cluster.run("sdiag"))
    return int(match[1]) if match else 0


if __name__ == "__main__":
    main()
