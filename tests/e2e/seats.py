"""What tests of seats do on a real Slurm with second seats, and what they see."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import grpc
from tests.e2e.ledger import job_states, submit
from tests.e2e.seats_site import OPTED_IN

from roost_demo.stack import Stack
from roost_proto.v1 import operator_pb2
from roost_slurm.text.scontrol import JobDetail, parse_jobs
from roost_slurm.text.squeue import SlurmJobState
from roost_slurm.text.stamp import Stamp, parse_stamp

OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
_PATIENCE_S = 120.0  # at load 30 a requeued job has taken a minute to run again


@dataclass(frozen=True, slots=True)
class Seat:
    """What a job holds on one node."""

    node: str
    gpus: tuple[int, ...]
    seat: int


def wait_for(done: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while not done():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def holding(stack: Stack) -> dict[str, Seat]:
    """What each job holds, by Slurm's word; jobs on one node only."""
    shown = parse_jobs(stack.slurm.run("scontrol", "-d", "-o", "show", "jobs", check=False))
    return {
        str(number): Seat(one.node, one.gpu_indices, one.seat)
        for number, job in shown.items()
        for one in job.allocated
        if one.gpu_indices
    }


def assert_rules(stack: Stack, opted_in: set[str]) -> None:
    """Never more than two jobs on a GPU, and Roost never placed two of which one did not opt in.

    Slurm takes the GPUs back from a job that completes before the job has left the queue. A job
    whose lease has run out is placed by Slurm, which knows of no partners: it has no pin.
    """
    shown = parse_jobs(stack.slurm.run("scontrol", "-d", "-o", "show", "jobs", check=False))
    on: dict[tuple[str, int], list[JobDetail]] = {}
    for job in shown.values():
        if job.state is SlurmJobState.RUNNING:
            for one in job.allocated:
                for gpu in one.gpu_indices:
                    on.setdefault((one.node, gpu), []).append(job)
    for place, jobs in on.items():
        assert len(jobs) <= 2, (place, jobs)
        placed = [job for job in jobs if (parse_stamp(job.admin_comment) or Stamp()).was]
        if len(jobs) == len(placed) == 2:
            assert opted_in.issuperset(str(job.number) for job in jobs), (place, jobs)


def run(stack: Stack, *options: str, command: str = "sleep 300") -> str:
    return submit(stack.slurm, *options, command=command)


def wait_running(stack: Stack, *job_ids: str) -> None:
    wait_for(lambda: all(job_states(stack.slurm).get(one) == "RUNNING" for one in job_ids))
    wait_for(lambda: set(job_ids) <= holding(stack).keys())


def wait_rerunning(stack: Stack, job_id: str) -> None:
    """Wait until a job that was requeued runs again, by what stays of that: its restarts.

    Between the two it holds nothing, for two seconds only: on a busy machine no poll may see that.
    """

    def runs_again() -> bool:
        (job,) = parse_jobs(shown := stack.slurm.show_job(job_id)).values()
        has_gpus = any(one.gpu_indices for one in job.allocated)
        return "Restarts=1 " in shown and job.state is SlurmJobState.RUNNING and has_gpus

    wait_for(runs_again)


def is_accepted(stack: Stack, *options: str) -> bool:
    """Whether sbatch takes such a job; none is submitted."""
    answer = stack.slurm.run(
        "sh",
        "-c",
        f"sbatch --test-only {' '.join(options)} --wrap true >&2 && echo yes",
        check=False,
    )
    return "yes" in answer


def reason(stack: Stack, job_id: str) -> str:
    request = operator_pb2.GetJobRequest(job_id=job_id)
    return stack.operator().GetJob(request, timeout=60.0).reason


def wait_reason(stack: Stack, job_id: str, text: str) -> None:
    def is_told() -> bool:
        try:
            return text in reason(stack, job_id)
        except grpc.RpcError:
            return False  # the next poll of the queue shows the job

    wait_for(is_told)


def wait_for_nodes(stack: Stack) -> None:
    """Wait until n1 has registered: a slurmctld that was restarted refuses jobs until then."""
    wait_for(lambda: is_accepted(stack, "-w", "n1", "--gres=gpu:8"))


def filled(stack: Stack) -> str:
    """Fill n1 with an opted-in job of all its GPUs, and return the job."""
    wait_for_nodes(stack)
    host = run(stack, OPTED_IN, "-w", "n1", "--gres=gpu:8")
    wait_running(stack, host)
    return host
