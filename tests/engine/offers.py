"""A cluster, offers on it and the ends of waits and runs, for the tests of gates."""

from dataclasses import replace
from functools import cache

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, Shape
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import Offer, RunEnded, WaitEnded
from roost_engine.testing.builders import job, node, shape, share, waiting

NODE, RACK, ACROSS = Tier.NODE, Tier.RACK, Tier.CLUSTER


def two_racks(nodes_per_rack: int = 2) -> Cluster:
    """Build racks a and b of nodes with 8 GPUs, a0, a1, ..., b0, b1, ...; no GPU is free."""
    cluster = Cluster()
    for rack in "ab":
        for number in range(nodes_per_rack):
            name = f"{rack}{number}"
            cluster.apply_node(node(name, rack=rack))
            cluster.hold(JobId(f"on-{name}"), [share(name, *range(8))])
    return cluster


@cache
def _shared() -> Cluster:
    """Return a cluster that tests share: gates only read it."""
    return two_racks()


def shapes_of(gpu_count: int) -> tuple[Shape, ...]:
    """Return the shapes of a job, those on fewer nodes first."""
    counts = (nodes for nodes in range(1, gpu_count + 1) if gpu_count % nodes == 0)
    return tuple(shape(gpu_count // nodes, nodes) for nodes in counts if gpu_count <= 8 * nodes)


def record(
    job_id: str = "1",
    gpus: int = 8,
    *,
    queued_s: float = 0.0,
    limit_s: float | None = None,
    user_id: int = 1000,
    name: str = "",
    model: str = "",
) -> JobRecord:
    """Return the record of a waiting job."""
    spec = job(job_id, *shapes_of(gpus), user_id=user_id, time_limit_s=limit_s)
    return waiting(replace(spec, name=name, model=model), queued_s)


def offer(
    job: JobRecord,
    tier: Tier,
    at_s: float,
    cluster: Cluster | None = None,
    waiting_count: int = 1,
) -> Offer:
    """Return an offer on a tier."""
    assert job.spec is not None
    return Offer(
        job=job,
        waited_s=at_s - job.queued_s,
        shape=job.spec.shapes[0],
        tier=tier,
        cluster=_shared() if cluster is None else cluster,
        at_s=at_s,
        waiting_count=waiting_count,
    )


def outcome(job: JobRecord, tier: Tier | None, at_s: float) -> WaitEnded:
    """Return the end of a job's wait: the tier that it got, or None."""
    return WaitEnded(job=job, waited_s=at_s - job.queued_s, tier=tier, at_s=at_s)


def run(
    job: JobRecord,
    started_s: float,
    ended_s: float,
    nodes: tuple[str, ...] = ("a0",),
    speed_frac: float | None = None,
    cluster: Cluster | None = None,
) -> RunEnded:
    """Return the end of a run of a job, whose GPUs are spread evenly over the nodes."""
    assert job.spec is not None
    each = range(job.spec.gpu_count // len(nodes))
    job.shares = tuple(share(name, *each) for name in nodes)
    job.started_s = started_s
    if speed_frac is not None:
        job.note_speed(speed_frac, started_s)
    return RunEnded(job=job, cluster=_shared() if cluster is None else cluster, at_s=ended_s)
