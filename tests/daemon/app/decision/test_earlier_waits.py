"""earlier_waits: reloads, new runs of the journal and restarts prolong no wait."""

import asyncio
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.daemon.app.parts import HEAD, Parts
from tests.daemon.running import Running, config, running

from roost_engine.domain.events import (
    JobEnded,
    JobQueued,
    JobStarted,
    JobWithdrawn,
    Tick,
    WaitSoFar,
)
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roost_engine.testing.builders import job, node, share
from roost_formats.journal.journal import FILE_NAME, Journal
from roost_formats.journal.records import Step
from roost_proto.v1 import operator_pb2 as pb
from roost_sim.replays.recording import ModelShelf, Recording
from roost_sim.replays.replay import replay
from roost_slurm.text.squeue import SlurmJobState
from roostd.app.decision.earlier_waits import (
    changed_waits,
    continued,
    keep_waits,
    read_waits,
    since_submission,
)
from roostd.testing.slurm_faults import Fault
from roostd.testing.slurm_stand_in import SlurmStandIn

ONE = JobId("1")
WAIT = WaitSoFar(since_s=40.0, declined_s=(50.0, None), refusal_count=2)
CAP_S = 3.0  # the gate declines nothing for less than a second
OFFERS = {"kind": "consolidation"}  # one that waits for its tightest shape has none to decline


# -- what a fresh engine is told ---------------------------------------------------------------


def queued(submit_s: float = 30.0, eligible_s: float = 0.0) -> JobQueued:
    return JobQueued(at_s=100.0, job=job("1", submit_s=submit_s, eligible_s=eligible_s))


def told(event: JobQueued, parts: Parts) -> WaitSoFar | None:
    found = continued(event, parts.state)
    assert isinstance(found, JobQueued)
    assert replace(found, wait=None) == replace(event, wait=None)
    return found.wait


@pytest.fixture
def parts() -> Parts:
    parts = Parts("n1")
    parts.state.earlier_waits[ONE] = WAIT
    return parts


def test_a_job_that_waited_before_continues_its_wait_once(parts: Parts) -> None:
    assert told(queued(), parts) == WAIT
    assert told(queued(), parts) is None


def test_a_job_that_slurm_requeued_or_whose_number_it_used_again_begins_again(
    parts: Parts,
) -> None:
    assert told(queued(submit_s=60.0), parts) is None


def test_a_submission_in_the_future_is_a_wrong_clock_and_changes_no_wait(parts: Parts) -> None:
    assert told(queued(submit_s=3_700.0), parts) == WAIT


def test_a_later_begin_time_of_its_user_begins_the_wait_again(parts: Parts) -> None:
    wait = told(queued(eligible_s=130.0), parts)
    assert wait == replace(WAIT, since_s=130.0)


def test_the_pause_after_a_requeue_is_no_begin_time(parts: Parts) -> None:
    parts.state.settle_until_s = {ONE: 102.0}
    assert told(queued(eligible_s=102.0), parts) == WAIT


def test_the_journal_knows_better_than_the_submission(parts: Parts) -> None:
    event = since_submission(queued())
    assert isinstance(event, JobQueued)
    assert told(event, parts) == WAIT
    assert told(event, parts) == WaitSoFar(since_s=30.0)
    assert since_submission(Tick(at_s=1.0)) == Tick(at_s=1.0)


def test_a_running_job_keeps_the_length_of_its_wait(parts: Parts) -> None:
    event = JobStarted(at_s=100.0, job_id=ONE, shares=(), job=job("1"), since_s=90.0)
    assert continued(event, parts.state) == replace(event, queued_s=40.0)
    assert continued(event, parts.state) == event


@pytest.mark.parametrize(
    "event",
    [
        JobEnded(at_s=100.0, job_id=ONE),
        JobWithdrawn(at_s=100.0, job_id=ONE, reason="is held"),
        JobStarted(at_s=100.0, job_id=ONE, shares=(share("n1", 0),)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_wait_that_is_over_is_forgotten(
    parts: Parts, event: JobEnded | JobWithdrawn | JobStarted
) -> None:
    assert continued(event, parts.state) == event
    assert told(queued(), parts) is None


# -- what the journal has of it ----------------------------------------------------------------


def test_a_step_changes_the_waits_of_the_jobs_that_it_is_about() -> None:
    parts = Parts("n1")
    engine = parts.state.engine
    event = JobQueued(at_s=100.0, job=job("1", gpus=8))
    assert changed_waits(event, engine.step(event), engine) == ((ONE, WaitSoFar(since_s=100.0)),)
    second = JobQueued(at_s=101.0, job=job("2", gpus=8))
    actions = engine.step(second)  # it waits for capacity
    assert dict(changed_waits(second, actions, engine)) == {"2": WaitSoFar(since_s=101.0)}
    ended = JobEnded(at_s=102.0, job_id=ONE)
    assert changed_waits(ended, engine.step(ended), engine) == ((ONE, None),)
    never = JobQueued(at_s=103.0, job=job("3", gpus=16))  # released to Slurm
    assert changed_waits(never, engine.step(never), engine) == (("3", None),)
    keep_waits(parts.state)
    assert set(parts.state.earlier_records) == {"2"}


def test_a_fresh_engine_continues_a_wait_as_the_engine_before_knew_it_once(parts: Parts) -> None:
    parts.state.engine.step(JobQueued(at_s=100.0, job=job("1", gpus=16), wait=None))  # released
    parts.state.engine.step(JobQueued(at_s=100.0, job=job("2", gpus=8)))
    keep_waits(parts.state)
    assert told(queued(), parts) == WAIT  # the journal's: the engine has released the job
    second = JobQueued(at_s=110.0, job=job("2", gpus=8))
    found = continued(second, parts.state)
    assert found == replace(second, wait=WaitSoFar(since_s=100.0))
    assert continued(second, parts.state) == second


def test_a_wait_of_two_engines_ago_is_not_lost(parts: Parts) -> None:
    state = parts.state
    state.engine.step(JobQueued(at_s=100.0, job=job("2", gpus=8)))
    keep_waits(state)
    state.engine = Parts("n1").state.engine  # is replaced before it is told of the job
    keep_waits(state)
    assert not state.earlier_records
    second = JobQueued(at_s=110.0, job=job("2", gpus=8))
    assert continued(second, state) == replace(second, wait=WaitSoFar(since_s=100.0))


def test_waits_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    assert read_waits(None) == {}
    with closing(Journal.open(tmp_path)) as journal:
        journal.write([HEAD, Step(Tick(at_s=1.0), (), ((ONE, WAIT),))])
        assert read_waits(journal) == {ONE: WAIT}
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as db, db:
            db.execute("UPDATE wait SET wait = x'00'")
        assert read_waits(journal) == {}


# -- a whole daemon ----------------------------------------------------------------------------


@pytest.fixture
def slurm() -> SlurmStandIn:
    """Two nodes of which three GPUs each are free."""
    slurm = SlurmStandIn([node("n1"), node("n2")], lease_s=None)
    slurm.submit(gpus_per_node=5)
    slurm.submit(gpus_per_node=5)
    slurm.lease_s = 60
    return slurm


def record(daemon: Running, job_id: JobId) -> JobRecord | None:
    return dict(daemon.daemon.state.engine.records()).get(job_id)


async def until_deferred(daemon: Running, job_id: JobId) -> None:
    def is_deferred() -> bool:
        known = record(daemon, job_id)
        return known is not None and known.until_s is not None

    await daemon.until(is_deferred, f"{job_id} waits for a closer tier")


async def test_a_reload_every_moment_does_not_prolong_a_capped_wait(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    gate = {"kind": "delay", "idle_frac": 1.0, "longest_s": CAP_S}
    async with running(slurm, config(tmp_path, gate=gate, placement=OFFERS)) as daemon:
        (job_id,) = slurm.submit(gpus=6, nodes=(1, 2), tasks=2)
        began_s, reload_count = time.monotonic(), 0
        await until_deferred(daemon, job_id)
        while slurm.state(job_id) is SlurmJobState.PENDING:
            assert time.monotonic() - began_s < 15 * CAP_S
            daemon.daemon.reload()
            reload_count += 1
            await asyncio.sleep(CAP_S / 12)
    assert reload_count > 1
    with Recording(tmp_path / "state") as recording:
        found = replay(recording, ModelShelf(), lambda count: None)
        assert len(recording.runs) == reload_count + 1
    assert found.difference is None, "a replay continues the waits too"
    assert time.monotonic() - began_s > CAP_S / 2


async def test_a_restart_prolongs_no_capped_wait_and_explains_it(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    gate = {"kind": "delay", "idle_frac": 1.0, "longest_s": 60.0}
    async with running(slurm, config(tmp_path, gate=gate, placement=OFFERS)) as daemon:
        (job_id,) = slurm.submit(gpus=6, nodes=(1, 2), tasks=2)
        await until_deferred(daemon, job_id)
        before = daemon.daemon.state.engine.record(job_id)
        await asyncio.sleep(0.3)
    async with running(slurm, config(tmp_path, gate=gate, placement=OFFERS)) as daemon:
        await until_deferred(daemon, job_id)
        after = daemon.daemon.state.engine.record(job_id)
        assert (after.queued_s, after.reason) == (before.queued_s, before.reason)
        assert after.declined_s == before.declined_s
        assert after.until_s == pytest.approx(before.until_s, abs=0.01)
        async with daemon.operator() as operator:
            explained = await operator.ExplainJob(pb.ExplainJobRequest(job_id=job_id))
        assert explained.job.waited_s > 0.3
        assert 0.0 < explained.job.wait_left_s < 60.0


async def test_reloads_do_not_reset_the_refusals_of_a_job(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    slurm.inject("pin", *[Fault.REFUSED] * 3)
    settings = config(tmp_path, engine={"refusal_backoff_s": 0.2, "refusal_limit": 3})
    async with running(slurm, settings) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=2)
        for count in (1, 2):

            def is_refused(count: int = count) -> bool:
                known = record(daemon, job_id)
                return known is not None and known.refusal_count == count

            await daemon.until(is_refused, f"{count} refusals")
            old = daemon.daemon.state.engine
            daemon.daemon.reload()
            await daemon.until(
                lambda old=old: daemon.daemon.state.engine is not old,  # type: ignore[misc]
                "a fresh engine",
            )
            assert is_refused()
            known = record(daemon, job_id)
            assert known is not None
            assert known.reason.startswith("pauses after a refusal")
        await daemon.until_running(job_id)
        assert daemon.count("roost_jobs_let_go_total") == 1


async def test_a_job_that_the_journal_does_not_know_counts_from_its_submission(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    (job_id,) = slurm.submit(gpus_per_node=8)
    await asyncio.sleep(0.3)
    async with running(slurm, config(tmp_path)) as daemon:
        await daemon.until(lambda: record(daemon, job_id) is not None, "the daemon knows it")
        known = daemon.daemon.state.engine.record(job_id)
        assert known.queued_s == known.spec.submit_s
        assert daemon.daemon.state.clock.now_s() - known.queued_s > 0.3


async def test_a_running_job_shows_after_a_restart_how_long_it_waited(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=8)
        await daemon.until(lambda: record(daemon, job_id) is not None, "the daemon knows it")
        await asyncio.sleep(0.3)
        slurm.end(JobId("1"))
        await daemon.until_running(job_id)
        before = daemon.daemon.state.engine.record(job_id)
    async with running(slurm, config(tmp_path)) as daemon:
        await daemon.until_running(job_id)
        after = daemon.daemon.state.engine.record(job_id)
        assert after.queued_s == before.queued_s
        assert daemon.daemon.state.place(job_id, after) is not None
