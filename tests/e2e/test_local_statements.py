"""Every statement true: what roostd says equals Slurm's own answers, under random load.

A real cluster is given bursts of random load: jobs of many shapes, arrays, holds, cancellations,
requeues, a node that is drained. After each burst both are asked until they agree. Slurm is asked
before roostd and after it, and only where both answers are alike was it still meanwhile.
"""

import random
import re
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.conftest import missing

from roost_demo.stack import NodeKind, Stack
from roost_proto.v1 import operator_pb2 as pb
from roost_slurm.testing.availability import LocalSlurmUnavailable
from roost_slurm.testing.local_slurm import LocalSlurmFailed
from roost_slurm.testing.ports import claim
from roost_slurm.text.hostlist import expand
from roost_slurm.text.tres import parse_indices

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

NODES = (
    NodeKind(name="n1", topology="bridges8"),
    NodeKind(name="n2", topology="bridges8"),
    NodeKind(name="n3", topology="nvswitch8"),
)
GPUS_PER_NODE = 8
BURST_COUNT, BURST_SIZE = 3, 8
AGREE_S = 45.0  # from the end of a burst; a busy machine takes its time
SEED = 20_261_123
SHAPES = (
    ("--gres=gpu:1",),
    ("--gres=gpu:2",),
    ("--gres=gpu:4",),
    ("--gpus=6", "-N1-2", "-n2"),
    ("-N2", "-n2", "--gres=gpu:2"),
    ("-N2", "-n2", "--gres=gpu:3"),
    ("--array=0-2", "--gres=gpu:1"),
)
GPU_SHARE = re.compile(r"Nodes=(\S+) .*?GRES=(\S+)")
INDICES = re.compile(r"\(IDX:([\d,-]+)\)")
RUNS = (pb.JOB_STATE_RUNNING, pb.JOB_STATE_STOPPING)
Gpus = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Facts:
    """What there is to agree on.

    Attributes:
        running: GPUs of each job that runs.
        waiting: jobs that wait, for whatever reason.
        holders: the job on each GPU that is not free.
        free: GPUs that a job could get, by node.
    """

    running: dict[str, Gpus]
    waiting: frozenset[str]
    holders: dict[tuple[str, int], str]
    free: dict[str, int]


@pytest.fixture(scope="module")
def metrics_port() -> Iterator[int]:
    """A port that is this test's: one of the kernel's choice may go to another program."""
    claimed = claim(1)
    assert claimed is not None
    port, lock = claimed
    with lock:
        yield port


@pytest.fixture(scope="module", params=["enforce", "shadow"])
def stack(request: pytest.FixtureRequest, metrics_port: int) -> Iterator[Stack]:
    settings = {
        "partitions": {"main": {"mode": request.param}},
        "slurm": {"poll_interval_s": 2.0},
        "listen": {"metrics": f"127.0.0.1:{metrics_port}"},
    }
    try:
        with Stack(NODES, lease_s=20, settings=settings) as running:
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


def slurm_says(stack: Stack) -> Facts | None:
    """Ask Slurm alone; None: a job has begun to end or to start, and the answers would not fit."""
    running: dict[str, Gpus] = {}
    waiting = set()
    for line in stack.slurm.run("squeue", "-r", "-h", "-o", "%i|%T").splitlines():
        job_id, state = line.strip().split("|")
        if state == "PENDING":
            waiting.add(job_id)
        elif state == "RUNNING":
            running[job_id] = gpus_of(stack.slurm.run("scontrol", "-d", "show", "job", job_id))
        else:
            return None
    holders = {place: job_id for job_id, places in running.items() for place in places}
    free = {}
    for kind in NODES:
        shown = stack.slurm.run("scontrol", "-o", "show", "node", kind.name)
        word = re.search(r" State=(\S+)", shown)
        assert word is not None
        is_open = not re.search(r"DRAIN|DOWN|MAINT|NOT_RESPONDING", word[1])
        taken = sum(node == kind.name for node, _ in holders)
        free[kind.name] = GPUS_PER_NODE - taken if is_open else 0
    return Facts(running, frozenset(waiting), holders, free)


def gpus_of(shown: str) -> Gpus:
    """Return the GPUs in `scontrol -d show job`; nodes with the same indices share a line."""
    return frozenset(
        (node, gpu)
        for nodes, gres in GPU_SHARE.findall(shown)
        for node in expand(nodes)
        for indices in INDICES.findall(gres)
        for gpu in parse_indices(indices)
    )


def roostd_says(stack: Stack) -> tuple[Facts, dict[str, pb.Job]]:
    """Ask roostd alone: the lists of jobs and nodes."""
    operator = stack.operator()
    jobs = {job.job_id: job for job in operator.ListJobs(pb.ListJobsRequest()).jobs}
    nodes = operator.ListNodes(pb.ListNodesRequest()).nodes
    return Facts(
        running={
            job_id: places(job.allocated) for job_id, job in jobs.items() if job.state in RUNS
        },
        waiting=frozenset(job_id for job_id, job in jobs.items() if job.state not in RUNS),
        holders={
            (node.name, gpu.index): gpu.job_id for node in nodes for gpu in node.gpus if gpu.job_id
        },
        free={
            node.name: sum(gpu.free and not gpu.fault for gpu in node.gpus) if node.usable else 0
            for node in nodes
        },
    ), jobs


def places(shares: "object") -> Gpus:
    return frozenset((share.node, gpu) for share in shares for gpu in share.gpu_indices)  # type: ignore[attr-defined]


def agreed(stack: Stack) -> tuple[Facts, dict[str, pb.Job]]:
    """Ask both until they agree while Slurm was still."""
    deadline_s = time.monotonic() + AGREE_S
    while True:
        before, (said, jobs) = slurm_says(stack), roostd_says(stack)
        after = slurm_says(stack)
        if before is not None and before == after == said:
            return said, jobs
        odd = [job for one, job in jobs.items() if after and one not in after.running]
        assert time.monotonic() < deadline_s, f"Slurm {before}, then {after}; roostd {said} {odd}"
        time.sleep(0.3)


def burst(stack: Stack, rng: random.Random, is_first: bool) -> None:
    """Submit, hold, release, cancel and requeue at random."""
    for _ in range(BURST_SIZE):
        stack.slurm.submit(*rng.choice(SHAPES), "--requeue", script=f"sleep {rng.choice((1, 300))}")
    facts = slurm_says(stack)
    if facts is None:
        return
    waiting, running = sorted(facts.waiting), sorted(facts.running)
    for jobs, command in (
        (waiting, ("scontrol", "hold")),
        (waiting, ("scancel",)),
        (running, ("scancel",)),
        (running, ("scontrol", "requeue")),
    ):
        if jobs:
            stack.slurm.run(*command, rng.choice(jobs), check=False)
    state = ("State=DRAIN", "Reason=test") if is_first else ("State=RESUME",)
    stack.slurm.run("scontrol", "update", "NodeName=n3", *state, check=False)


def check_statements(stack: Stack, facts: Facts, jobs: dict[str, pb.Job], mode: str) -> None:
    """Compare what roostd says elsewhere with what was agreed on."""
    operator = stack.operator()
    links = {kind.name: kind.describe().topology.links for kind in NODES}
    for job_id, gpus in facts.running.items():
        job = jobs[job_id]
        told = operator.ExplainJob(pb.ExplainJobRequest(job_id=job_id)).job
        assert places(told.allocated) == gpus
        assert (told.state, told.gpu_count) == (job.state, len(gpus)), job_id
        if mode == "enforce" and told.planned and not told.slurm_chooses_gpus:
            assert places(told.planned) == gpus, job_id
        if told.HasField("link_score"):
            by_node = {node: [gpu for at, gpu in gpus if at == node] for node, _ in gpus}
            score = sum(links[node].score(tuple(sorted(at))) for node, at in by_node.items())
            assert told.link_score == score, job_id
    for job_id in facts.waiting:
        told = operator.GetJob(pb.GetJobRequest(job_id=job_id))
        assert told.gpu_count >= 1, job_id
        is_held = "JobHeld" in stack.slurm.run("squeue", "-r", "-h", "-j", job_id, "-o", "%r")
        assert is_held == ("is held" in told.reason), (job_id, told.reason)
    status = operator.GetStatus(pb.GetStatusRequest(ask_slurm=True))
    assert (status.gpu_free_count, status.slurm_fault) == (sum(facts.free.values()), "")
    assert status.running_job_count == len(facts.running)


def check_while_still(stack: Stack, mode: str) -> None:
    """Check every statement; while jobs start and end both are asked again."""
    deadline_s = time.monotonic() + AGREE_S
    while True:
        facts, jobs = agreed(stack)
        try:
            check_statements(stack, facts, jobs, mode)
            return
        except (AssertionError, LocalSlurmFailed):
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.3)


def metric(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        found = re.search(rf"^{re.escape(name)} (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_what_roostd_says_is_what_slurm_says(
    stack: Stack, metrics_port: int, request: pytest.FixtureRequest
) -> None:
    mode, rng = request.node.callspec.params["stack"], random.Random(SEED)
    for number in range(BURST_COUNT):
        burst(stack, rng, is_first=not number)
        check_while_still(stack, mode)
    deadline_s = time.monotonic() + AGREE_S
    while metric(metrics_port, 'roost_jobs{state="running"}') != len(agreed(stack)[0].running):
        assert time.monotonic() < deadline_s
        time.sleep(0.5)
    if mode == "enforce":
        assert metric(metrics_port, "roost_allocation_mismatches_total") == 0
    else:
        assert metric(metrics_port, 'roost_watched_starts_total{gpus="other"}') > 0
