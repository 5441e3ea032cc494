"""A started job takes the GPUs of placed jobs, but not of one that shares them."""

from dataclasses import replace

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.seats import Seats
from roost_engine.domain.events import JobStarted
from roost_engine.domain.model import JobId, NodeName, NodeShare, Placement
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord, JobState
from roost_engine.table.lost_placements import lost_to_start
from roost_engine.testing.builders import job, shape

PLACED, STARTED = JobId("placed"), JobId("started")
N1 = NodeName("n1")


def lost(gpu: int, seat: int, *, share: tuple[bool, bool]) -> list[JobId]:
    cluster, jobs = Cluster(), {}
    cluster.seats = Seats() if any(share) else None
    for job_id, shares_gpus in zip((PLACED, STARTED), share, strict=True):
        spec = replace(job(job_id), shares_gpus=shares_gpus)
        jobs[job_id] = JobRecord(spec=spec, state=JobState.PLACING, queued_s=0.0)
    jobs[PLACED].placement = Placement((N1,), (0,), shape(1), Tier.NODE, seat=seat)
    event = JobStarted(at_s=0.0, job_id=STARTED, shares=(NodeShare(N1, (gpu,)),))
    return lost_to_start(event, [PLACED, STARTED], jobs, cluster)


def test_a_job_that_starts_on_its_gpus_displaces_a_placed_one() -> None:
    assert lost(0, 0, share=(False, False)) == [PLACED]
    assert lost(1, 0, share=(False, False)) == []


def test_two_that_share_do_not_displace_each_other() -> None:
    assert lost(0, 1, share=(True, True)) == []
    assert lost(0, 0, share=(True, True)) == [PLACED]


def test_a_job_that_did_not_opt_in_displaces_one_that_did() -> None:
    assert lost(0, 1, share=(True, False)) == [PLACED]
