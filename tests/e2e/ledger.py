"""What became of a set of jobs, by Slurm's word and their own, and the checks all tests share.

Each job prints where it runs and on which GPUs, with the times: slurmctld forgets the indices of a
job that has ended.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from roost_demo.stack import Stack, StackFailed
from roost_proto.v1 import operator_pb2
from roost_slurm.hooks import heartbeat
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.local_slurm import LocalSlurm
from roost_slurm.text.hostlist import expand

Gpus = dict[str, tuple[int, ...]]  # by node

_SCRIPT = """
echo "began $(date +%s.%N) $SLURM_JOB_NODELIST $SLURM_JOB_GPUS"
{command}
result=$?
echo "ended $(date +%s.%N)"
exit $result
"""
_BEGAN = re.compile(r"^began (\S+) (\S+) (\S*)$", re.MULTILINE)
_ENDED = re.compile(r"^ended (\S+)$", re.MULTILINE)
_STALE_S = heartbeat.FRESH_S + 3  # both beat and clock are whole seconds
_FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One job: its state by Slurm's word, the rest by its own."""

    state: str
    gpus: Gpus
    began_s: float
    ended_s: float


def without_node_hooks(plan: ClusterPlan) -> ClusterPlan:
    """Return a plan whose nodes run none of Roost's hooks: they start Python twice for a job.

    There still is a program in place of each: with one, Slurm launches jobs otherwise.
    """
    nothing = Path("/bin/true")
    hooks = replace(plan.hooks, prolog=nothing, epilog=nothing, task_prolog=nothing)
    return replace(plan, hooks=hooks)


def submit(slurm: LocalSlurm, *options: str, command: str = "true", user: str | None = None) -> str:
    """Submit a job that tells where it ran."""
    return slurm.submit(*options, script=_SCRIPT.format(command=command), user=user)


def until(done: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    """Poll until something holds; a test fails where it does not in time."""
    deadline_s = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.1)


@contextmanager
def cleared(stack: Stack) -> Iterator[Stack]:
    """End all jobs afterwards, also where the set-up or the test fails: it is tried again."""
    try:
        yield stack
    finally:
        clear(stack)


def clear(stack: Stack) -> None:
    """End all jobs, and wait until roostd knows of none either.

    A job of the next test would else be placed beside those whose end roostd has not seen.
    """
    end_jobs(stack.slurm)
    until(lambda: not known_jobs(stack), "roostd has seen the ends")


def end_jobs(slurm: LocalSlurm) -> None:
    """End all jobs, and wait until Slurm has none."""
    until(lambda: not _left(slurm), "the queue is empty")


def _left(slurm: LocalSlurm) -> bool:
    """Cancel what has not ended, and return whether any job was left."""
    states = dict(line.split() for line in slurm.run("squeue", "-h", "-o", "%A %T").splitlines())
    # Again in each round: a job that is being requeued may come back after it was cancelled.
    if job_ids := [job_id for job_id, state in states.items() if state != "COMPLETING"]:
        slurm.run("scancel", "--full", *job_ids, check=False)
    return bool(states)


def known_jobs(stack: Stack) -> list[str]:
    """The jobs that have not ended, as roostd knows them; none while it is stopped.

    It looks at Slurm for that: no hook tells it of a waiting job that is cancelled.
    """
    if not has_roostd(stack):
        return []
    operator = stack.operator()
    operator.GetStatus(operator_pb2.GetStatusRequest(ask_slurm=True), timeout=60.0)
    listed = operator.ListJobs(operator_pb2.ListJobsRequest(), timeout=60.0).jobs
    return [job.job_id for job in listed]


def has_roostd(stack: Stack) -> bool:
    """Whether the daemon of a stack runs: it is neither stopped nor dead."""
    try:
        return is_running(stack.roostd_pid)
    except StackFailed:
        return False


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_death(pid: int) -> None:
    """Wait until roostd has come by its fail point."""
    until(lambda: not is_running(pid), "roostd comes by the fail point")


def let_beat_age(stack: Stack) -> None:
    """Write the last beat of a roostd that is dead or stopped again, as if it were stale by now."""
    path = stack.folder / "heartbeat"
    beat = heartbeat.parse(path.read_text())
    heartbeat.write(path, replace(beat, at_epoch_s=beat.at_epoch_s - _STALE_S))


def until_exists(path: Path) -> str:
    """Return the command of a job that ends when a test makes a file: no sleep is long enough."""
    return f"while [ ! -e {path} ]; do sleep 0.2; done"


def wait_until_over(slurm: LocalSlurm, job_ids: Iterable[str], timeout_s: float) -> None:
    """Wait until Slurm is done with all of them."""
    missing, deadline_s = set(job_ids), time.monotonic() + timeout_s
    while missing:
        states = job_states(slurm)
        missing = {job_id for job_id in missing if states.get(job_id) not in _FINAL}
        assert time.monotonic() < deadline_s, _records(slurm, missing)
        time.sleep(0.2)


def _records(slurm: LocalSlurm, job_ids: Iterable[str]) -> str:
    """What Slurm says of some jobs and of the nodes: why they have not ended."""
    asked = [("job", job_id) for job_id in job_ids] + [("nodes",)]
    return "".join(slurm.run("scontrol", "-o", "show", *what, check=False) for what in asked)


def job_states(slurm: LocalSlurm) -> dict[str, str]:
    """State of every job that slurmctld remembers, empty while it does not answer."""
    answer = slurm.run("squeue", "-h", "-t", "all", "-o", "%A %T", check=False)
    return dict(line.split() for line in answer.splitlines())


def outcomes(slurm: LocalSlurm, job_ids: Iterable[str]) -> dict[str, Outcome]:
    """What became of jobs that submit() started and that are over."""
    asked, states = list(job_ids), dict[str, str]()

    def are_known() -> bool:
        states.update(job_states(slurm))
        return states.keys() >= set(asked)

    until(are_known, "Slurm answers and knows the jobs")
    return {job_id: _outcome(states[job_id], slurm.output(job_id)) for job_id in asked}


def _outcome(state: str, output: str) -> Outcome:
    began, ended = _BEGAN.search(output), _ENDED.search(output)
    if began is None or ended is None:
        return Outcome(state, {}, 0.0, 0.0)
    indices = tuple(sorted(int(index) for index in began[3].split(",") if index))
    gpus = dict.fromkeys(expand(began[2]), indices)
    return Outcome(state, gpus, float(began[1]), float(ended[1]))


def planned(stack: Stack, job_id: str) -> Gpus:
    """What roostd chose for a job."""
    request = operator_pb2.GetJobRequest(job_id=job_id)
    job = stack.operator().GetJob(request, timeout=60.0)
    return {share.node: tuple(share.gpu_indices) for share in job.planned}


def assert_none_twice(found: dict[str, Outcome]) -> None:
    """No GPU was given to two jobs at one time."""
    uses: dict[tuple[str, int], list[tuple[float, float, str]]] = {}
    for job_id, outcome in found.items():
        for node, indices in outcome.gpus.items():
            for index in indices:
                use = (outcome.began_s, outcome.ended_s, job_id)
                uses.setdefault((node, index), []).append(use)
    for gpu, spans in uses.items():
        for (_, ended_s, first), (began_s, _, second) in pairwise(sorted(spans)):
            assert ended_s <= began_s, f"{gpu} was given to {first} and {second}"


def assert_all_completed(slurm: LocalSlurm, gpu_counts: dict[str, int]) -> dict[str, Outcome]:
    """Every job ended well, with as many GPUs as it asked for, and no GPU was given twice."""
    found = outcomes(slurm, gpu_counts)
    for job_id, gpu_count in gpu_counts.items():
        outcome = found[job_id]
        assert outcome.state == "COMPLETED", (job_id, outcome, slurm.output(job_id))
        assert sum(map(len, outcome.gpus.values())) == gpu_count, (job_id, outcome)
    assert_none_twice(found)
    return found
