"""What is written into the spool is followed by polls; a defect in reading it ends the daemon."""

import asyncio
from pathlib import Path

import pytest
from tests.daemon.app.parts import Parts
from tests.daemon.app.watched_site import Site

from roost_engine.domain.errors import RoostError
from roost_engine.domain.events import JobQueued
from roost_engine.domain.model import JobId
from roost_slurm.hooks import spool
from roost_slurm.hooks.spool import Ended, Started, Submitted
from roostd.app.polls import spool_follower
from roostd.app.polls.awaited_changes import AwaitedChanges
from roostd.app.polls.poll_schedule import PollSchedule
from roostd.app.polls.spool_follower import SPOOL_FILE, SpoolFollower, note_reported
from roostd.config.config import Config
from roostd.state import DaemonState, ReportedRun


async def test_a_job_is_found_soon_after_its_line_in_the_spool(tmp_path: Path) -> None:
    """Not by the poll, which is a minute away."""
    site = Site(tmp_path)
    site.state.config = Config.model_validate(
        {"mode": "enforce", "slurm": {"poll_interval_s": 60.0}}
    )
    await site.look()
    tasks = [asyncio.create_task(work) for work in (site.watch.run(), site.watch.spool.run())]
    await asyncio.sleep(0)
    site.has_news.clear()

    (job_id,) = site.slurm.submit(gpus_per_node=1)
    spool.append(tmp_path / SPOOL_FILE, Submitted(1000, "main"))
    try:
        async with asyncio.timeout(60):
            await site.has_news.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    event = site.parts.emitted[-1]
    assert isinstance(event, JobQueued)
    assert event.job.job_id == job_id


async def test_lines_are_read_though_the_kernel_watches_no_more_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fs.inotify.max_user_instances, 128 for a user, may be used up by other programs of root."""
    state, refused = Parts().state, asyncio.Event()

    def refuse(folder: Path) -> None:
        refused.set()
        raise RoostError(f"{folder} cannot be watched: Too many open files")

    monkeypatch.setattr(spool_follower, "READ_EVERY_S", 0.001)
    monkeypatch.setattr(spool_follower, "WATCH_AGAIN_S", 0.01)
    with monkeypatch.context() as patch:
        patch.setattr(spool_follower, "FolderWatch", refuse)
        task = asyncio.create_task(
            SpoolFollower(tmp_path, state, AwaitedChanges(PollSchedule())).run()
        )
        await refused.wait()
        spool.append(tmp_path / SPOOL_FILE, Started("7"))
        await until_reported(state, "7")
    spool.append(tmp_path / SPOOL_FILE, Started("8"))  # it is watched again
    await until_reported(state, "8")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until_reported(state: DaemonState, job_id: str) -> None:
    async with asyncio.timeout(60):
        while True:
            if JobId(job_id) in state.reported_runs:
                return
            await asyncio.sleep(0.001)


async def test_lines_are_noted_and_a_spool_that_cannot_be_read_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Parts().state
    follower = SpoolFollower(tmp_path, state, AwaitedChanges(PollSchedule()))

    def refuse() -> None:
        raise PermissionError("another owner's file")

    with monkeypatch.context() as patch:
        patch.setattr(follower._spool, "drain", refuse)
        follower._read()
    spool.append(tmp_path / SPOOL_FILE, Started("7"))
    follower._read()
    assert state.reported_runs[JobId("7")].started_s == 100.0


async def test_a_defect_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the task, only polls at an interval would find jobs, for as long as roostd runs."""
    follower = SpoolFollower(tmp_path, Parts().state, AwaitedChanges(PollSchedule()))
    monkeypatch.setattr(follower, "_read", lambda: 1 // 0)
    task = asyncio.create_task(follower.run())
    await asyncio.sleep(0)
    spool.append(tmp_path / SPOOL_FILE, Submitted(1000, "main"))
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(60):
            await task


def test_a_start_and_an_end_are_of_one_run_and_a_new_start_of_the_next() -> None:
    state = Parts("n1").state
    now_s = state.clock.now_s()
    note_reported(state, [Submitted(1000, "main"), Started("7"), Ended("7"), Ended("8_1")])
    assert state.reported_runs == {
        JobId("7"): ReportedRun(started_s=now_s, ended_s=now_s),
        JobId("8_1"): ReportedRun(ended_s=now_s),
    }
    note_reported(state, [Started("7")])
    assert state.reported_runs[JobId("7")] == ReportedRun(started_s=now_s)


def test_the_oldest_reports_are_forgotten() -> None:
    state = Parts("n1").state
    kept = state.engine.config.ended_job_count
    note_reported(state, [Ended(str(number)) for number in range(kept + 10)])
    assert next(iter(state.reported_runs)) == "10"
    assert len(state.reported_runs) == kept
