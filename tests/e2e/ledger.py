"""What Slurm says became of a set of jobs, and the checks that all end-to-end tests share."""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from roost_demo.stack import Stack
from roost_proto.v1 import operator_pb2
from roost_slurm.scontrol import parse_jobs
from roost_slurm.testing.local_slurm import LocalSlurm

Gpus = dict[str, tuple[int, ...]]  # by node
_TIMES = re.compile(r"JobId=(\d+) .*? StartTime=(\S+) EndTime=(\S+)")
_FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One job, by Slurm's word."""

    state: str
    gpus: Gpus
    start: str  # ISO to the second: comparable as text
    end: str


def outcomes(slurm: LocalSlurm) -> dict[str, Outcome]:
    """Every job that slurmctld remembers."""
    text = slurm.run("scontrol", "-d", "-o", "show", "job", check=False)
    times = {number: (start, end) for number, start, end in _TIMES.findall(text)}
    return {
        str(number): Outcome(
            detail.state.value.upper(),
            {share.node: share.gpu_indices for share in detail.allocated},
            *times.get(str(number), ("", "")),
        )
        for number, detail in parse_jobs(text).items()
    }


def wait_until_over(slurm: LocalSlurm, job_ids: Iterable[str], timeout_s: float) -> None:
    """Wait until Slurm is done with all of them."""
    missing, deadline_s = set(job_ids), time.monotonic() + timeout_s
    while missing:
        answer = slurm.run("squeue", "-h", "-t", "all", "-o", "%A %T", check=False)
        states = dict(line.split() for line in answer.splitlines())
        missing = {job_id for job_id in missing if states.get(job_id) not in _FINAL}
        assert time.monotonic() < deadline_s, {j: states.get(j) for j in missing}
        time.sleep(0.2)


def planned(stack: Stack, job_id: str) -> Gpus:
    """What roostd chose for a job."""
    request = operator_pb2.GetJobRequest(job_id=job_id)
    job = stack.operator().GetJob(request, timeout=5.0)
    return {share.node: tuple(share.gpu_indices) for share in job.planned}


def assert_none_twice(found: dict[str, Outcome]) -> None:
    """No GPU was given to two jobs at one time."""
    uses: dict[tuple[str, int], list[tuple[str, str, str]]] = {}
    for job_id, outcome in found.items():
        for node, indices in outcome.gpus.items():
            for index in indices:
                uses.setdefault((node, index), []).append((outcome.start, outcome.end, job_id))
    for gpu, spans in uses.items():
        spans.sort()
        for (_, end, first), (start, _, second) in pairwise(spans):
            assert end <= start, f"{gpu} was given to {first} and {second}"


def assert_all_completed(found: dict[str, Outcome], gpu_counts: dict[str, int]) -> None:
    """Every job ended well, with as many GPUs as it asked for, and no GPU was given twice."""
    for job_id, gpu_count in gpu_counts.items():
        outcome = found[job_id]
        assert outcome.state == "COMPLETED", (job_id, outcome)
        assert sum(map(len, outcome.gpus.values())) == gpu_count, (job_id, outcome)
    assert_none_twice({job_id: found[job_id] for job_id in gpu_counts})
