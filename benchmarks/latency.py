"""What Roost adds to the start of a job on real Slurm, and what job_submit.lua costs slurmctld.

Two clusters run side by side, alike but for Roost. Jobs go to them in turn, so that what else the
machine does hits both. A start is the time from calling sbatch to the first line of the script.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import _harness
from lupa import lua51

from roost_demo.stack import Stack
from roost_slurm import heartbeat, submit_script
from roost_slurm.heartbeat import Heartbeat
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.local_slurm import LocalSlurm

WARM_UP_COUNT = 3
SCRIPT = "date +%s.%N"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=30, help="pairs of jobs")
    parser.add_argument("--calls", type=int, default=20_000, help="calls of job_submit.lua")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    plain_s, roost_s = measure_starts(options.jobs)
    lua_s = measure_script(options.calls)
    added_s = [roost - plain for plain, roost in zip(plain_s, roost_s, strict=True)]
    _harness.report(
        {
            "plain_median_s": statistics.median(plain_s),
            "roost_median_s": statistics.median(roost_s),
            "added_median_s": statistics.median(added_s),
            "roost_p90_s": statistics.quantiles(roost_s, n=10)[-1],
            "job_submit_median_ms": statistics.median(lua_s) * 1e3,
            "job_submit_p99_ms": statistics.quantiles(lua_s, n=100)[-1] * 1e3,
            "jobs": options.jobs,
            "calls": options.calls,
        },
        as_json=options.json,
    )


def measure_starts(job_count: int) -> tuple[list[float], list[float]]:
    """Seconds from sbatch to the script's first line: (plain Slurm, with Roost), pair by pair."""
    plain_s, roost_s = list[float](), list[float]()
    with Stack() as stack, LocalSlurm(ClusterPlan.uniform()) as plain:
        for number in range(WARM_UP_COUNT + job_count):
            gpu_count = (1, 2, 4, 8)[number % 4]
            pair = start_s(plain, gpu_count), start_s(stack.slurm, gpu_count)
            if number >= WARM_UP_COUNT:
                plain_s.append(pair[0])
                roost_s.append(pair[1])
    return plain_s, roost_s


def start_s(slurm: LocalSlurm, gpu_count: int) -> float:
    """Submit one job and return how long it took to start."""
    began_s = time.time()
    job_id = slurm.submit(f"--gres=gpu:{gpu_count}", script=SCRIPT)
    slurm.wait_for_state(job_id, "COMPLETED")
    return float(slurm.output(job_id)) - began_s


def measure_script(call_count: int) -> list[float]:
    """Seconds of each call of job_submit.lua, in the Lua release that Slurm embeds."""
    seconds = list[float]()
    with tempfile.TemporaryDirectory() as folder:
        beat, spool = Path(folder, "heartbeat"), Path(folder, "events")
        spool.touch()
        now = int(time.time())
        heartbeat.write(beat, Heartbeat(at_epoch_s=now, lease_s=60, enforce=("*",)))
        lua = lua51.LuaRuntime(unpack_returned_tuples=True)
        lua.globals().slurm = lua.table_from({"SUCCESS": 0, "ERROR": -1})
        lua.execute(submit_script.render(beat, spool))
        partitions = lua.table_from({"main": lua.table_from({"flag_default": 1})})
        for number in range(call_count):
            if number % 1000 == 0:
                heartbeat.write(
                    beat, Heartbeat(at_epoch_s=int(time.time()), lease_s=60, enforce=("*",))
                )
            job = lua.table_from({"tres_per_node": "gres:gpu:2", "shared": 65534})
            began_s = time.perf_counter()
            lua.globals().slurm_job_submit(job, partitions, 1000)
            seconds.append(time.perf_counter() - began_s)
    return seconds


if __name__ == "__main__":
    main()
