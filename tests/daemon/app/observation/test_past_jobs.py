"""Jobs that end are noted with what was asked, chosen and done."""

import pytest
from tests.daemon.app.parts import Parts

from roost_engine.domain.events import (
    Event,
    JobEnded,
    JobQueued,
    JobStarted,
    JobWithdrawn,
    TopologySeen,
)
from roost_engine.domain.model import JobId, NodeName
from roost_engine.testing.builders import bridges, job, share
from roost_formats.journal.past_jobs import PastJob
from roostd.app.observation.past_jobs import PastJobs
from roostd.state import LeftQueue, Owner, UnmanagedJob

ONE, NINE = JobId("1"), JobId("9")


class Site:
    """An engine with nodes n1 and n2 of 8 GPUs in bridged pairs, and the jobs that were noted."""

    def __init__(self) -> None:
        self.state = Parts("n1", "n2").state
        self.noted: list[PastJob] = []
        self.past = PastJobs(self.state, self.noted.append)
        for name in ("n1", "n2"):
            node = NodeName(name)
            self.tell(TopologySeen(at_s=100.0, name=node, links=bridges(), gpu_uuids=()))

    def tell(self, *events: Event) -> None:
        for event in events:
            if isinstance(event, JobStarted):
                self.state.note_start(event.job_id, event.shares, resumes=False)
            self.past.observe(event, self.state.engine.step(event))


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_watched_job_is_noted_with_the_chosen_and_the_real_gpus(site: Site) -> None:
    site.state.owners[ONE] = Owner(7, "main", 2, "train", "vision", "high")
    site.tell(
        JobQueued(at_s=110.0, job=job("1", gpus=2, binding=False)),
        JobStarted(at_s=130.0, job_id=ONE, shares=(share("n1", 5, 6, cpu_count=4),)),
        JobEnded(at_s=190.0, job_id=ONE),
    )
    (noted,) = site.noted
    assert (noted.job_id, noted.name, noted.account, noted.qos) == ("1", "train", "vision", "high")
    assert (noted.is_binding, noted.is_as_planned) == (False, False)
    times_s = noted.queued_s, noted.decided_s, noted.started_s, noted.ended_s
    assert times_s == (110.0, 110.0, 130.0, 190.0)
    assert noted.allocated == (share("n1", 5, 6, cpu_count=0),)
    assert noted.planned_link_score == noted.best_link_score
    assert noted.link_score is not None
    assert noted.stock_link_score is not None
    assert noted.link_score < (noted.best_link_score or 0) > noted.stock_link_score
    assert (noted.tier, noted.planned_tier) == (0, 0)


def test_the_time_under_a_limit_is_counted(site: Site) -> None:
    limited = "Slurm would not start it: QOSMaxGRESPerUser"
    site.tell(
        JobQueued(at_s=100.0, job=job("1", gpus=8, nodes=3)),
        JobWithdrawn(at_s=110.0, job_id=ONE, reason=limited),
        JobWithdrawn(at_s=150.0, job_id=ONE, reason="is held"),
        JobEnded(at_s=200.0, job_id=ONE),
    )
    (noted,) = site.noted
    assert (noted.limit, noted.limited_s) == ("QOSMaxGRESPerUser", 40.0)
    assert (noted.started_s, noted.decided_s) == (None, None)


def test_a_job_that_was_left_and_never_seen_to_run_is_noted(site: Site) -> None:
    owner = Owner(8, "debug", 2, "quick", "vision")
    site.tell(JobEnded(at_s=100.0, job_id=NINE))
    assert site.noted == []
    site.state.left_queue[NINE] = LeftQueue(
        reason="partition debug is off", owner=owner, submit_s=90.0, left_s=100.0
    )
    site.tell(JobEnded(at_s=101.0, job_id=NINE))
    (noted,) = site.noted
    assert (noted.job_id, noted.name, noted.gpu_count) == ("9", "quick", 2)
    assert (noted.is_binding, noted.started_s) == (None, None)
    assert (noted.ended_s - noted.queued_s, noted.reason) == (10.0, "partition debug is off")


def test_a_job_that_slurm_placed_is_noted_with_the_reason(site: Site) -> None:
    site.state.owners[NINE] = Owner(8, "debug", 1)
    site.state.unmanaged[NINE] = UnmanagedJob(reason="partition debug is off", is_blocked=False)
    site.tell(
        JobStarted(at_s=120.0, job_id=NINE, shares=(share("n2", 3),)),
        JobEnded(at_s=180.0, job_id=NINE),
        JobEnded(at_s=181.0, job_id=JobId("77")),  # the engine has never heard of it
    )
    (noted,) = site.noted
    assert (noted.is_binding, noted.user_id, noted.gpu_count) == (None, 8, 1)
    assert noted.reason == "partition debug is off"
    assert (noted.planned, noted.best_link_score) == ((), None)


def test_a_job_that_comes_back_begins_again(site: Site) -> None:
    site.tell(
        JobQueued(at_s=100.0, job=job("1", gpus=2, binding=False)),
        JobStarted(at_s=110.0, job_id=ONE, shares=(share("n1", 0, 1),)),
        JobQueued(at_s=150.0, job=job("1", gpus=2, binding=False)),
        JobEnded(at_s=170.0, job_id=ONE),
    )
    (noted,) = site.noted
    assert noted.decided_s == 150.0
