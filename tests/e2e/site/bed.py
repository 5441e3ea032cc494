"""Slurm as a real site runs it, with Roost in enforce mode: what all tests here share.

`ROOST_SITE_PLAIN=1 pytest --runxfail tests/e2e/site` runs the same tests without roostd, to see
what Slurm does by itself. `ROOST_SITE_ORDER=learned pytest tests/e2e/site` runs them with that
order.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import grpc
from tests.conftest import missing
from tests.e2e.ledger import clear, end_jobs, has_roostd, until

from roost_demo.stack import NodeKind, Stack
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import operator_pb2_grpc as pb_grpc
from roost_slurm.testing.availability import LocalSlurmUnavailable
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.local_slurm import LocalSlurm
from roost_slurm.text.hostlist import expand

NODES = (NodeKind(name="n1", topology="nvswitch8"), NodeKind(name="n2", topology="nvswitch8"))
GPU_COUNT = 16
CPU_COUNT = 32  # of each node
ALICE, BOB = "games", "news"  # users that every Debian has
# Plain Slurm starts a job that fits after 0 to 2 s here, Roost after about 0.5 s; a busy machine
# takes longer. A job that only starts because a lease or the hand-over ends takes 40 s and more.
SOON_S = 30.0
LEASE_S, HAND_OVER_S = 60, 60.0
REQUEUE_DELAY_S = 8
WAITS = "waits for GPUs on one node"
_STATES = ("sinfo", "-h", "-N", "-o", "%R %a %N %T")


@contextmanager
def site(
    *,
    nodes: tuple[NodeKind, ...] = NODES,
    settings: Mapping[str, object] | None = None,
    lease_s: int = LEASE_S,
    model_names: tuple[str, ...] = (),
    counts_models: bool = False,
    socket_count: int = 1,
    shard_count: int = 0,
    cloud_nodes: tuple[str, ...] = (),
    **slurm: object,
) -> Iterator[Stack]:
    """Run Roost on a cluster; skips the test where there is no Slurm.

    Args:
        nodes: the nodes of the cluster.
        settings: more of roostd's configuration, by section.
        lease_s: the lease of a waiting job.
        model_names: GPU models that users may name.
        counts_models: whether each of them has a count-only gres.
        socket_count: of each node.
        shard_count: of each node's GPUs.
        cloud_nodes: names of nodes with State=CLOUD.
        slurm: fields of ClusterPlan that differ.
    """

    def amend(plan: ClusterPlan) -> ClusterPlan:
        plan = replace(plan, requeue_delay_s=REQUEUE_DELAY_S, **slurm)  # type: ignore[arg-type]
        nodes = [
            replace(node, socket_count=socket_count, shard_count=shard_count) for node in plan.nodes
        ]
        nodes = [
            replace(node, state="CLOUD") if node.name in cloud_nodes else node for node in nodes
        ]
        return replace(plan, nodes=tuple(nodes))

    try:
        with Stack(
            nodes,
            lease_s=lease_s,
            settings=_with_hand_over(_with_order(settings)),
            model_names=model_names,
            counts_models=counts_models,
            amend_plan=amend,
        ) as stack:
            if os.environ.get("ROOST_SITE_PLAIN") == "1":
                stack.stop_roostd()
            yield stack
    except LocalSlurmUnavailable as error:
        missing(str(error))


def _with_order(settings: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """Add the order of `ROOST_SITE_ORDER`, where the test does not say its own."""
    kind = os.environ.get("ROOST_SITE_ORDER")
    return {"order": {"kind": kind}} | dict(settings or {}) if kind else settings


def _with_hand_over(settings: Mapping[str, object] | None) -> Mapping[str, object]:
    """Have roostd hand over no job within SOON_S, where the test does not say when."""
    given = dict(settings or {})
    slurm = given.get("slurm", {})
    assert isinstance(slurm, dict)
    return given | {"slurm": {"hand_over_s": HAND_OVER_S} | slurm}


@contextmanager
def cleared_afterwards(stack: Stack) -> Iterator[Stack]:
    """Undo what tests do to the cluster: jobs, reservations, states of nodes and partitions.

    Also where the set-up or the test fails: it is tried again. A roostd that ran before runs again.
    """
    had_roostd = has_roostd(stack)
    try:
        yield stack
    finally:
        if had_roostd and not has_roostd(stack):
            stack.start_roostd()
        end_jobs(stack.slurm)
        _undo_settings(stack)
        clear(stack)  # last: roostd counts what a reservation holds as a job


def _undo_settings(stack: Stack) -> None:
    slurm = stack.slurm
    for line in slurm.run("scontrol", "-o", "show", "reservation", check=False).splitlines():
        if line.startswith("ReservationName="):
            name = line.split()[0].partition("=")[2]
            slurm.run("scontrol", "delete", f"reservationname={name}")
    shown = [line.split() for line in slurm.run(*_STATES).splitlines()]
    for name in sorted({name for name, state, _, _ in shown if state != "up"}):
        slurm.run("scontrol", "update", f"partitionname={name}", "state=up")
    drained = sorted({node for _, _, node, state in shown if state.startswith("drain")})
    for name in drained:
        slurm.run("scontrol", "update", f"nodename={name}", "state=resume")
    if drained:  # for a moment they count as not responding
        until(lambda: "*" not in slurm.run(*_STATES), "the nodes are back")


def jobs(slurm: LocalSlurm) -> list[str]:
    """Jobs that have not ended."""
    return slurm.run("squeue", "-h", "-o", "%A").split()


def assert_runs(stack: Stack, *job_ids: str, within_s: float = SOON_S) -> None:
    """All of these jobs run in time; a failure shows the queue."""
    slurm, deadline_s = stack.slurm, time.monotonic() + within_s
    while any(slurm.state(job_id) != "RUNNING" for job_id in job_ids):
        assert time.monotonic() < deadline_s, (
            f"not within {within_s:g} s:\n{queue(slurm)}\n{stack.log('roostd')[-5000:]}"
        )
        time.sleep(0.1)


def queue(slurm: LocalSlurm) -> str:
    """The queue, for people who read why a test failed."""
    return slurm.run("squeue", "-o", "%A %u %q %P %T %r %S %N %b")


def reason(stack: Stack, job_id: str) -> str:
    """Why a job waits, by Slurm's word."""
    return stack.slurm.run("squeue", "-h", "-j", job_id, "-o", "%r").strip()


def nodes_of(stack: Stack, job_id: str) -> list[str]:
    """The nodes that a running job has."""
    return expand(stack.slurm.run("squeue", "-h", "-j", job_id, "-o", "%N").strip())


def occupy(
    stack: Stack, node: str, indices: Iterable[int] = range(8), time_limit: str = "60"
) -> str:
    """Take some GPUs of a node with a job that Roost leaves to Slurm."""
    gres = ",".join(f"gpu:g{index}:1" for index in indices)
    job_id = stack.slurm.submit("-w", node, f"--gres={gres}", "-t", time_limit)
    stack.slurm.wait_for_state(job_id, "RUNNING")
    return job_id


def told(stack: Stack, job_id: str) -> pb.Job:
    """What roostd tells of a job; empty until roostd knows it."""
    try:
        return stack.operator().GetJob(pb.GetJobRequest(job_id=job_id), timeout=60.0)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        return pb.Job()


def pin_timers(stack: Stack) -> None:
    """Have jobs of four GPUs and more wait for GPUs on one node, as long as the gate lets them."""
    with grpc.insecure_channel(f"unix:{stack.folder}/admin.sock") as channel:
        pin = pb_grpc.AdminStub(channel).PinTimer
        for name in ("4/low", "4/mid", "4/high"):
            pin(pb.PinTimerRequest(name=name, pinned_s=1800.0, by="alice"))


def wait_for_one_node(stack: Stack) -> str:
    """Submit a job of six GPUs on one node, or three on each of two, which waits for the former."""
    job_id = stack.slurm.submit("--gpus=6", "-N1-2", "-n2")
    until(lambda: WAITS in told(stack, job_id).reason, "it says what it waits for")
    return job_id
