"""What the stand-in has beyond tests/daemon/slurm/test_contract.py: time and faults."""

import pytest

from roost_engine.domain.errors import SlurmRefused, SlurmTimeout
from roost_engine.testing import builders
from roost_slurm.hooks.spool import Ended, SpoolEvent, Started, Submitted
from roost_slurm.text.partitions import Partition
from roost_slurm.text.squeue import SlurmJobState
from roostd.slurm.rules.site_rules import SiteRules
from roostd.testing.slurm_faults import Fault
from roostd.testing.slurm_stand_in import SlurmStandIn


class Site:
    """A stand-in of one node, the wall clock that it reads, and what it would spool."""

    def __init__(self, lease_s: int | None = 60) -> None:
        self.now_s, self.spooled = 1000.0, list[SpoolEvent]()
        nodes = [builders.node("n1", 4)]
        self.slurm = SlurmStandIn(nodes, lease_s=lease_s, now=lambda: self.now_s)
        self.slurm.listeners.append(self.spooled.append)

    def after(self, seconds: float) -> None:
        self.now_s += seconds
        self.slurm.tick()


def test_a_leased_job_starts_when_its_lease_ends_and_ends_after_its_run() -> None:
    site = Site()
    (job_id,) = site.slurm.submit(gpus_per_node=2, run_s=30.0)
    assert site.slurm.lease_left_s(job_id) == 60.0

    site.after(59.0)
    assert site.slurm.state(job_id) is SlurmJobState.PENDING
    site.after(2.0)
    assert site.slurm.state(job_id) is SlurmJobState.RUNNING
    site.after(31.0)
    assert site.slurm.state(job_id) is None
    assert site.spooled == [Submitted(1000, "main"), Started(job_id), Ended(job_id)]


def test_without_a_heartbeat_jobs_get_no_lease_and_share_the_node() -> None:
    site = Site(lease_s=None)
    jobs = [site.slurm.submit(gpus_per_node=2)[0] for _ in range(3)]
    assert [site.slurm.state(job_id) for job_id in jobs] == [
        SlurmJobState.RUNNING,
        SlurmJobState.RUNNING,
        SlurmJobState.PENDING,
    ]
    site.slurm.end(jobs[0])
    assert site.slurm.state(jobs[2]) is SlurmJobState.RUNNING


def test_a_stopped_job_waits_for_two_minutes() -> None:
    site = Site(lease_s=None)
    (job_id,) = site.slurm.submit(gpus_per_node=2)
    site.slurm.stop(job_id)
    site.after(120.0)
    assert site.slurm.state(job_id) is SlurmJobState.PENDING
    site.after(2.0)
    assert site.slurm.state(job_id) is SlurmJobState.RUNNING


@pytest.mark.parametrize(
    ("fault", "error", "is_renewed"),
    [
        (Fault.REFUSED, SlurmRefused, False),
        (Fault.LOST_BEFORE, SlurmTimeout, False),
        (Fault.LOST_AFTER, SlurmTimeout, True),
    ],
)
async def test_an_injected_fault_hits_one_call(
    fault: Fault, error: type[Exception], is_renewed: bool
) -> None:
    site = Site()
    (job_id,) = site.slurm.submit(gpus_per_node=2)
    site.slurm.inject("renew", fault)

    with pytest.raises(error):
        await site.slurm.renew([job_id], 500)

    assert (site.slurm.lease_left_s(job_id) == 500) is is_renewed
    await site.slurm.renew([job_id], 600)
    assert site.slurm.lease_left_s(job_id) == 600


def test_a_full_array_starts_its_next_task_when_one_ends() -> None:
    site = Site(lease_s=None)
    tasks = site.slurm.submit(gpus_per_node=1, array=range(3), task_limit=1)
    assert [site.slurm.state(task) for task in tasks].count(SlurmJobState.RUNNING) == 1
    site.slurm.end(tasks[0])
    assert site.slurm.state(tasks[1]) is SlurmJobState.RUNNING


async def test_rules_of_a_site_are_the_ones_that_a_test_has_set() -> None:
    site = Site()
    assert await site.slurm.rules() == SiteRules()
    site.slurm.site_rules = SiteRules(partitions={"main": Partition(name="main", tier=3)})
    assert (await site.slurm.rules()).partitions["main"].tier == 3


async def test_squeue_shows_what_limits_count() -> None:
    site = Site(lease_s=None)
    site.slurm.submit(gpus=2, account="phys", qos="low", licenses="matlab:2", cpus_per_task=3)
    site.slurm.submit(gpus_per_node=3, begin_epoch_s=5_000.0)
    running, waiting = (await site.slurm.queue()).jobs
    assert (running.account, running.qos, running.licenses) == ("phys", "low", "matlab:2")
    assert running.tres_total == "cpu=3,node=1,gres/gpu=2"
    assert waiting.tres_total == "cpu=1,node=1,gres/gpu=3"
    assert waiting.eligible_epoch_s == waiting.start_epoch_s == 5_000.0
