"""Short jobs of one GPU are Slurm's to start while no other job waits."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.daemon.app.parts import Parts
from tests.daemon.slurm.watcher import Watcher

from roost_engine.domain.events import JobEnded, JobQueued, JobStarted
from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_engine.testing.builders import job
from roostd.app.polls.short_runs import ShortRuns
from roostd.config.config import Mode
from roostd.slurm.queue_reading import ARRAY_IS_FULL, OPENED
from roostd.slurm.queue_view import SiteView
from roostd.state import ReportedRun


class Site:
    """A queue, and what short runs do about it."""

    def __init__(self, **settings: Any) -> None:
        self.queue, self.parts = Watcher(), Parts("n1", **settings)
        self.opened: list[JobId] = []
        self.closed: list[JobId] = []
        self.short_runs = ShortRuns(self.parts.state, self._open, self._close)

    def _open(self, job_ids: Sequence[JobId]) -> None:
        self.opened += job_ids

    def _close(self, job_ids: Sequence[JobId]) -> None:
        self.closed += job_ids

    async def poll(self) -> bool:
        self.queue.site = SiteView(opened=self.short_runs.opened)
        for event in await self.queue.poll():
            if isinstance(event, JobQueued):
                self.short_runs.observe(event, ())
        snapshot = await self.queue.slurm.queue()
        return self.short_runs.review(snapshot, self.queue.view)

    def submit(self, gpus: int = 1) -> JobId:
        (job_id,) = self.queue.slurm.submit(gpus=gpus)
        return job_id

    async def run(self, run_s: float, count: int = 8) -> None:
        """Let jobs run, one after the other."""
        for _ in range(count):
            job_id = self.submit()
            await self.poll()
            self.begin(job_id)
            self.parts.clock.at_s += run_s
            self.end(job_id)
        self.parts.clock.at_s += 2.0
        await self.poll()

    def begin(self, job_id: JobId) -> None:
        at_s = self.parts.clock.now_s()
        self.short_runs.observe(JobStarted(at_s=at_s, job_id=job_id, shares=()), ())

    def end(self, job_id: JobId) -> None:
        self.queue.slurm.end(job_id)
        at_s = self.parts.clock.now_s()
        self.short_runs.observe(JobEnded(at_s=at_s, job_id=job_id), ())


async def test_jobs_of_an_unknown_kind_are_not_opened() -> None:
    site = Site()
    site.submit()
    assert not await site.poll()
    assert not site.short_runs.opened


async def test_jobs_are_opened_once_eight_of_their_kind_were_short() -> None:
    site = Site()
    await site.run(1.0, count=7)
    site.submit()
    await site.poll()
    assert not site.opened
    site = Site()
    await site.run(1.0, count=8)
    first, second = site.submit(), site.submit()
    assert await site.poll()
    assert site.opened == [first, second]
    assert not await site.poll()
    assert site.queue.view.unmanaged == {first: OPENED, second: OPENED}
    assert site.opened == [first, second]


async def test_jobs_that_came_in_one_burst_count_each() -> None:
    site = Site()
    burst = [site.submit() for _ in range(8)]
    await site.poll()
    for job_id in burst:
        site.begin(job_id)
    site.parts.clock.at_s += 1.0
    for job_id in burst:
        site.end(job_id)
    site.parts.clock.at_s += 2.0
    waiting = site.submit()
    await site.poll()
    assert site.opened == [waiting]


async def test_one_longer_run_among_the_last_keeps_them_closed() -> None:
    site = Site()
    await site.run(1.0)
    await site.run(11.0, count=1)
    site.opened.clear()
    site.submit()
    await site.poll()
    assert not site.opened


async def test_a_job_of_the_kind_that_runs_on_closes_the_others() -> None:
    site = Site()
    await site.run(1.0)
    running, waiting = site.submit(), site.submit()
    await site.poll()
    site.begin(running)
    site.parts.clock.at_s += 11.0
    assert await site.poll()
    assert waiting in site.closed
    await site.poll()
    assert waiting in site.queue.view.waiting


@pytest.mark.parametrize("gpus", [2, 8])
async def test_another_job_that_waits_closes_them_for_a_second(gpus: int) -> None:
    site = Site()
    await site.run(1.0)
    short = site.submit()
    await site.poll()
    other = site.submit(gpus)
    assert await site.poll()
    assert site.closed == [short]
    assert not site.short_runs.opened

    site.queue.slurm.end(other)
    await site.poll()
    assert not site.short_runs.opened
    site.parts.clock.at_s += 1.1
    await site.poll()
    assert site.short_runs.opened == {int(short)}


async def test_the_tasks_of_an_array_are_known_by_their_siblings() -> None:
    site = Site()
    tasks = site.queue.slurm.submit(gpus=1, array=range(20))
    await site.poll()
    for task in tasks[:8]:
        site.begin(task)
        site.parts.clock.at_s += 1.0
        site.end(task)
    site.parts.clock.at_s += 2.0
    await site.poll()
    assert site.opened == list(tasks[8:])


async def test_hooks_say_how_long_a_job_ran() -> None:
    site = Site()
    await site.run(1.0, count=7)
    job_id = site.submit()
    await site.poll()
    site.begin(job_id)
    site.parts.state.reported_runs[job_id] = ReportedRun(started_s=100.0, ended_s=140.0)
    site.end(job_id)
    site.submit()
    await site.poll()
    assert not site.opened


async def test_nothing_is_opened_where_the_site_forbids_it_or_slurms_choice_could_harm() -> None:
    forbidden = Site(slurm={"short_run_s": 0.0})
    foreign = Site()
    foreign.parts.state.engine.cluster.set_foreign_memory(NodeName("n1"), 0, 1 << 30)
    for site in (forbidden, foreign):
        await site.run(1.0)
        site.submit()
        await site.poll()
        assert not site.opened


async def test_jobs_that_have_a_lease_all_the_same_are_opened_again_after_a_while() -> None:
    """Slurm did not answer, for instance."""
    site = Site()
    await site.run(1.0)
    job_id = site.submit()
    await site.poll()
    await site.poll()
    assert site.opened == [job_id]
    site.parts.clock.at_s += 2.1
    await site.poll()
    assert site.opened == [job_id, job_id]

    site.queue.slurm.update(job_id, StartTime="now")
    site.parts.clock.at_s += 2.1
    await site.poll()
    assert site.opened == [job_id, job_id]


async def test_an_opened_job_is_one_while_others_like_it_are_opened() -> None:
    site = Site()
    await site.run(1.0)
    running, waiting = site.submit(), site.submit()
    assert not site.short_runs.is_opened(running)
    await site.poll()
    site.queue.slurm.update(running, StartTime="now")
    await site.poll()
    assert site.short_runs.opened == {int(waiting)}
    assert site.short_runs.is_opened(running)
    site.submit(2)  # waits for what the running one frees
    await site.poll()
    assert not site.short_runs.is_opened(running)


async def test_a_requeued_job_is_placed_by_roost_though_its_kind_is_short() -> None:
    """A start on its old node may fail there until its old credential has expired."""
    site = Site()
    await site.run(1.0)
    requeued, other = site.submit(), site.submit()
    await site.poll()
    assert site.opened == [requeued, other]
    site.queue.slurm.update(requeued, StartTime="now")
    await site.poll()
    await site.queue.slurm.requeue(requeued)
    await site.poll()
    assert requeued in site.queue.view.waiting
    assert requeued not in site.closed
    site.parts.clock.at_s += 2.1
    await site.poll()
    assert not site.short_runs.opened
    assert site.opened == [requeued, other]


async def test_the_run_of_a_job_that_was_requeued_says_nothing_of_its_next_one() -> None:
    site = Site()
    await site.run(1.0)
    job_id = site.submit()
    await site.poll()
    site.begin(job_id)
    site.parts.clock.at_s += 11.0
    at_s = site.parts.clock.now_s()
    site.short_runs.observe(JobQueued(at_s=at_s, job=job(job_id)), ())
    site.begin(job_id)
    site.parts.clock.at_s += 1.0
    site.end(job_id)
    site.parts.clock.at_s += 2.0
    waiting = site.submit()
    await site.poll()
    assert site.short_runs.opened == {int(waiting)}


async def test_a_held_job_is_said_to_be_held_and_opened_once_it_waits_again() -> None:
    site = Site()
    await site.run(1.0)
    job_id = site.submit()
    await site.poll()
    site.queue.slurm.hold(job_id)
    await site.poll()
    await site.poll()
    assert site.queue.view.blocked[job_id].startswith("is held")
    assert not site.short_runs.opened
    site.queue.slurm.hold(job_id, release=True)
    await site.poll()
    assert site.short_runs.opened == {int(job_id)}


async def test_a_job_that_its_user_edits_to_more_gpus_is_placed_by_roost() -> None:
    site = Site()
    await site.run(1.0)
    other, edited = site.submit(), site.submit()
    await site.poll()
    site.queue.slurm.update(edited, TresPerJob="gres:gpu:2")
    assert await site.poll()
    assert site.closed == [other, edited]
    await site.poll()
    assert edited in site.queue.view.waiting
    assert not site.short_runs.opened


async def site_with_full_array() -> tuple[Site, tuple[JobId, ...]]:
    """Return a site with an opened array of four tasks, one of which Slurm starts now."""
    site = Site()
    await site.run(1.0)
    tasks = site.queue.slurm.submit(gpus=1, array=range(4), task_limit=1)
    await site.poll()
    assert site.opened == list(tasks)
    site.queue.slurm.update(tasks[0], StartTime="now")
    return site, tasks


async def test_a_full_array_that_its_user_edits_to_more_gpus_is_leased_again() -> None:
    site, tasks = await site_with_full_array()
    site.parts.clock.at_s += 2.0
    await site.poll()
    for task in tasks:
        site.queue.slurm.update(task, TresPerJob="gres:gpu:2")
    site.closed.clear()
    assert await site.poll()
    assert site.closed == list(tasks[1:])
    assert not await site.poll()
    assert not site.short_runs.opened


async def test_a_task_that_is_requeued_closes_no_full_array() -> None:
    site, tasks = await site_with_full_array()
    await site.poll()
    site.queue.slurm.stop(tasks[0])
    site.queue.slurm.update(tasks[1], StartTime="now")
    await site.poll()
    assert site.queue.view.blocked[tasks[0]] == ARRAY_IS_FULL
    await site.poll()
    assert site.short_runs.opened
    assert not site.closed


async def test_a_job_whose_partition_is_no_longer_enforced_gets_no_lease() -> None:
    site = Site()
    await site.run(1.0)
    job_id = site.submit()
    await site.poll()
    await site.poll()
    site.queue.reader = replace(site.queue.reader, mode_of=lambda partition: Mode.SHADOW)
    site.queue.view = replace(site.queue.view, reads={})  # as after a reload; see read_anew
    assert await site.poll()
    assert not site.short_runs.opened
    assert job_id in site.queue.view.waiting
    assert not site.closed


async def test_a_job_whose_start_slurm_has_forgotten_is_placed_by_roost() -> None:
    """The node takes the job for running still."""
    site = Site()
    await site.run(1.0)
    job_id = site.submit()
    await site.poll()
    await site.poll()
    share = NodeShare(node=NodeName("n1"), gpu_indices=(0,), cpu_count=1)
    view = site.queue.view
    site.queue.view = replace(view, unmanaged={}, running={job_id: (share,)})
    assert await site.poll()
    assert site.closed == [job_id]
    site.parts.clock.at_s += 2.0
    await site.poll()
    assert not site.short_runs.opened
    assert site.queue.view.waiting[job_id].excluded_nodes == ("n1",)
