"""What Slurm and Roost say of the same waiting jobs at the same moments, on a real Slurm.

Slurm runs on this machine, with two nodes of eight GPUs that a fake driver makes up, and schedules
by itself: Roost is in shadow mode and only watches. Users ask for five times the run time. After
some jobs from which Roost learns run times, a queue is submitted at once; every few seconds
`squeue --start` and Roost are asked, and in the end the starts are known. Needs root, Slurm and the
parts that tests marked `slurm` need.
"""

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import _harness
import numpy as np

from roost_demo.stack import NodeKind, Stack
from roost_proto.v1 import operator_pb2 as pb

NODES = (NodeKind(name="n1", topology="bridges8"), NodeKind(name="n2", topology="bridges8"))
KINDS = (("short", 12, 1, 2), ("middle", 24, 2, 4), ("long", 36, 3, 8))  # run s, limit min, GPUs
EVERY_S = 5.0
ETA_INTERVAL_S = 2.0


@dataclass(frozen=True, slots=True)
class Said:
    """What was said of a job at one moment, in seconds from then; None: nothing."""

    job_id: str
    at_s: float
    slurm_s: float | None
    low_s: float
    median_s: float
    high_s: float


def submit(stack: Stack, count: int, generator: random.Random) -> list[str]:
    """Submit jobs of all kinds in a random order."""
    ids = list[str]()
    for number in range(count):
        name, run_s, limit_min, gpus = KINDS[number % len(KINDS)]
        run_s += generator.choice((-1, 0, 1))
        options = (f"--gres=gpu:{gpus}", f"-t{limit_min}", f"--job-name={name}")
        ids.append(stack.slurm.submit(*options, script=f"sleep {run_s}"))
    return ids


def wait_for_end(stack: Stack, limit_s: float) -> None:
    """Wait until no job is left."""
    deadline_s = time.monotonic() + limit_s
    while stack.slurm.run("squeue", "-h").strip():
        if time.monotonic() > deadline_s:
            raise SystemExit("the queue does not become empty")
        time.sleep(0.5)


def slurm_says(stack: Stack) -> dict[str, float]:
    """Return the seconds until each start that squeue --start names."""
    found = dict[str, float]()
    for line in stack.slurm.run("squeue", "--start", "-h", "-o", "%i %S").splitlines():
        job_id, _, start = line.partition(" ")
        if start not in ("N/A", "Unknown"):
            start_s = time.mktime(time.strptime(start, "%Y-%m-%dT%H:%M:%S"))
            found[job_id] = max(start_s - time.time(), 0.0)
    return found


def ask(stack: Stack, at_s: float) -> list[Said]:
    """Ask both."""
    by_slurm = slurm_says(stack)
    answer = stack.operator().GetEta(pb.GetEtaRequest())
    return [
        Said(
            one.job_id,
            at_s,
            by_slurm.get(one.job_id),
            one.start.low_s,
            one.start.median_s if one.start.HasField("median_s") else np.inf,
            one.start.high_s if one.start.HasField("high_s") else np.inf,
        )
        for one in answer.etas
        if one.HasField("start")
    ]


def watch(stack: Stack, job_ids: Sequence[str]) -> tuple[list[Said], dict[str, float]]:
    """Ask both until the queue is empty; returns also when each job started."""
    said, starts = list[Said](), dict[str, float]()
    next_s = time.time() + 2 * ETA_INTERVAL_S
    waiting = set(job_ids)
    while waiting:
        now_s = time.time()
        pending = set(stack.slurm.run("squeue", "-h", "-t", "PD", "-o", "%i").split())
        for job_id in waiting - pending:
            starts[job_id] = now_s
        waiting &= pending
        if now_s >= next_s:
            next_s = now_s + EVERY_S
            said += ask(stack, time.time())
        time.sleep(0.25)
    return said, starts


def figures(said: Sequence[Said], starts: dict[str, float]) -> dict[str, object]:
    """Compare what was said with the starts."""
    known = [each for each in said if starts[each.job_id] > each.at_s]
    real_s = np.array([starts[each.job_id] - each.at_s for each in known])
    median_s = np.array([each.median_s for each in known])
    low_s = np.array([each.low_s for each in known])
    high_s = np.array([each.high_s for each in known])
    both = np.array([each.slurm_s is not None for each in known])
    slurm_s = np.array([each.slurm_s or 0.0 for each in known])[both]
    return {
        "said": len(known),
        "slurm_says_something_frac": round(float(both.mean()), 3),
        "real_median_s": round(float(np.median(real_s)), 1),
        "roost_inside_frac": round(
            float(np.mean((low_s - 1 <= real_s) & (real_s <= high_s + 1))), 3
        ),
        "roost_median_error_s": round(float(np.median(np.abs(median_s - real_s))), 1),
        "roost_median_error_where_slurm_speaks_s": round(
            float(np.median(np.abs(median_s - real_s)[both])), 1
        ),
        "slurm_median_error_s": round(float(np.median(np.abs(slurm_s - real_s[both]))), 1),
        "slurm_median_factor": round(float(np.median((slurm_s + 1.0) / (real_s[both] + 1.0))), 2),
        "roost_median_factor": round(float(np.median((median_s + 1.0) / (real_s + 1.0))), 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--learn", type=_harness.whole, default=24, help="jobs from which Roost learns"
    )
    parser.add_argument("--jobs", type=_harness.whole, default=24, help="jobs of the queue")
    parser.add_argument("--seed", type=_harness.whole_or_0, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    _harness.stop_on_signals()
    generator = random.Random(options.seed)
    settings = {
        "partitions": {"main": {"mode": "shadow"}},
        "eta": {"interval_s": ETA_INTERVAL_S},
    }
    with Stack(NODES, settings=settings) as stack:
        submit(stack, options.learn, generator)
        wait_for_end(stack, 600.0)
        job_ids = submit(stack, options.jobs, generator)
        said, starts = watch(stack, job_ids)
    _harness.report(figures(said, starts), as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
