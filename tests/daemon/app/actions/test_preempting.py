"""The daemon stops a running job for a waiting one, and keeps what it learned over restarts."""

import contextlib
import sqlite3
from pathlib import Path

import pytest
from tests.daemon.running import Running, config, running

from roost_engine.domain.events import JobQueued, PreemptionRefused, TimerPinned
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import JobRecord
from roost_engine.job_record import JobState as Stands
from roost_engine.plugins.plugins import Knowledge, Plugins
from roost_engine.preemption.network_preemption import NetworkPreemption
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing import builders
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.journal import FILE_NAME, Journal
from roost_formats.journal.reader import JournalReader
from roost_formats.journal.records import Memo
from roost_proto.v1 import operator_pb2 as pb
from roost_slurm.text.squeue import SlurmJobState
from roost_slurm.text.stamp import parse_stamp
from roost_slurm.text.versions import SlurmVersion
from roostd.config.config import Config
from roostd.testing.slurm_faults import Fault
from roostd.testing.slurm_stand_in import SlurmStandIn

BOOKWORM = SlurmVersion(22, 5, 8)
SAVES = "roost:checkpoint=0.05"
PREEMPTION = {
    "kind": "network",
    "lease_s": 0.2,
    "patience_s": 0.1,
    "restart_s": 0.0,
    "cooldown_s": 600.0,
}


@pytest.fixture
def slurm() -> SlurmStandIn:
    return SlurmStandIn([builders.node("n1")], version=BOOKWORM)


@pytest.fixture
def settings(tmp_path: Path) -> Config:
    return config(
        tmp_path,
        partitions={"main": {"mode": "enforce", "preemption": True}},
        preemption=PREEMPTION,
        engine={"refusal_backoff_s": 0.05},
        gate={"kind": "delay"},
    )


def stop_count(daemon: Running, job_id: JobId) -> int:
    return daemon.daemon.state.engine.record(job_id).stop_count


def asked(settings: Config) -> tuple[JobId, ...]:
    """The jobs that were asked to stop, as a daemon that starts now would know them."""
    with contextlib.closing(sqlite3.connect(settings.paths.state_dir / FILE_NAME)) as journal:
        row = journal.execute("SELECT knowledge FROM memo").fetchone()
    known = decode(row[0], Knowledge).preemption if row else None
    return tuple(job_id for job_id, _ in known.asked) if known else ()


def assert_replays(settings: Config) -> set[type]:
    """Every run of the journal gives its actions again. Returns the kinds of its events."""
    reader = JournalReader(settings.paths.state_dir / FILE_NAME)
    kinds = set[type]()
    for run in reader.runs():
        policies = decode(run.head.plugins, Plugins).policies(HeuristicScore())
        engine = Engine(decode(run.head.config, EngineConfig), policies)
        for step in reader.steps(run):
            kinds.add(type(step.event))
            assert encode(engine.step(step.event)) == encode(step.actions)
        engine.check_invariants()
    reader.close()
    return kinds


async def test_a_job_with_checkpoints_is_stopped_for_another_and_runs_again(
    slurm: SlurmStandIn, settings: Config
) -> None:
    async with running(slurm, settings) as daemon:
        (victim,) = slurm.submit(gpus=8, comment=SAVES)
        await daemon.until_running(victim)
        (waiting,) = slurm.submit(gpus=8)
        await daemon.until_running(waiting)
        await daemon.until(lambda: asked(settings) == (victim,), "a kill would not be forgotten")
        assert slurm.state(victim) is SlurmJobState.PENDING
        await daemon.until(
            lambda: slurm.lease_left_s(victim) < 61.0, "it has a lease, not Slurm's two minutes"
        )
        stamp = parse_stamp(slurm.admin_comment(victim))
        assert stamp is not None
        assert stamp.was[0] == ("TresPerJob", "gres:gpu:8")
        assert daemon.count("roost_preemptions_total", outcome="stopped") == 1
        ended_s = daemon.daemon.state.clock.now_s()
        slurm.end(waiting)
        await daemon.until_running(victim)
        assert stop_count(daemon, victim) == 1
        began_s = daemon.daemon.state.engine.record(victim).started_s
        assert began_s is not None
        assert began_s - ended_s >= 2.5, "slurmd has dealt with the other job by then"
    assert JobQueued in assert_replays(settings)


async def test_a_stack_named_in_the_configuration_stops_jobs_by_its_own_rule(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    settings = config(
        tmp_path,
        stack="roost",
        partitions={"main": {"mode": "enforce", "preemption": True}},
        preemption={"lease_s": 0.2},
        engine={"refusal_backoff_s": 0.05},
    )
    async with running(slurm, settings) as daemon:
        (kept,) = slurm.submit(gpus=4)
        (victim,) = slurm.submit(gpus=4, comment=SAVES)
        await daemon.until_running(kept, victim)
        assert daemon.daemon.state.engine.policy_names == {
            "order": "las",
            "gate": "uplink-delay",
            "score": "heuristic",
            "preemption": "las-closer-moves",
            "run-times": "history",
        }
        (newcomer,) = slurm.submit(gpus=4)
        await daemon.until_running(newcomer)
        assert slurm.state(victim) is SlurmJobState.PENDING
        assert slurm.state(kept) is SlurmJobState.RUNNING, "it names no checkpoint"
    assert JobQueued in assert_replays(settings)


@pytest.mark.parametrize("comment", ["", "roost:checkpoint=soon"])
async def test_a_job_without_a_checkpoint_interval_is_not_stopped(
    slurm: SlurmStandIn, settings: Config, comment: str
) -> None:
    async with running(slurm, settings) as daemon:
        (first,) = slurm.submit(gpus=8, comment=comment)
        await daemon.until_running(first)
        assert not daemon.daemon.state.engine.record(first).safe_until_s < float("inf")


async def test_a_job_of_a_preemptible_qos_may_be_stopped_without_a_comment(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    settings = config(
        tmp_path,
        partitions={"main": {"mode": "enforce", "preemption": True}},
        preemption=PREEMPTION | {"qos": ["scavenger"]},
    )
    async with running(slurm, settings) as daemon:
        (cheap,) = slurm.submit(gpus=4, qos="scavenger")
        (dear,) = slurm.submit(gpus=4, qos="normal")
        await daemon.until_running(cheap, dear)
        records = dict(daemon.daemon.state.engine.records())
        assert records[cheap].safe_until_s < float("inf")
        assert records[dear].safe_until_s == float("inf")


async def test_a_refused_requeue_leaves_the_victim_running_and_the_other_waiting(
    slurm: SlurmStandIn, settings: Config
) -> None:
    async with running(slurm, settings) as daemon:
        (victim,) = slurm.submit(gpus=8, comment=SAVES, no_requeue=True)
        await daemon.until_running(victim)
        (waiting,) = slurm.submit(gpus=8)
        await daemon.until(
            lambda: daemon.count("roost_preemptions_total", outcome="refused") == 1, "a refusal"
        )
        await daemon.until_running(victim)
        assert daemon.daemon.state.engine.record(waiting).state is Stands.WAITING
        assert slurm.state(victim) is SlurmJobState.RUNNING
        slurm.end(victim)
        await daemon.until_running(waiting)
    assert PreemptionRefused in assert_replays(settings)


@pytest.mark.parametrize("fault", [Fault.LOST_BEFORE, Fault.LOST_AFTER])
async def test_a_requeue_without_an_answer_loses_no_job(
    slurm: SlurmStandIn, settings: Config, fault: Fault
) -> None:
    slurm.inject("requeue", fault)
    async with running(slurm, settings) as daemon:
        (victim,) = slurm.submit(gpus=8, comment=SAVES)
        await daemon.until_running(victim)
        (waiting,) = slurm.submit(gpus=8)
        await daemon.until(
            lambda: daemon.count("roost_preemptions_total", outcome="refused") == 1, "no answer"
        )
        stops = int(fault is Fault.LOST_AFTER)
        await daemon.until(lambda: stop_count(daemon, victim) == stops, "it came back, or not")
        # The plan is dropped either way. A victim that was stopped after all has to rest first.
        first, second = (waiting, victim) if stops else (victim, waiting)
        await daemon.until_running(first)
        slurm.end(first)
        await daemon.until_running(second)


async def test_a_requeue_by_hand_is_answered_as_one_of_roosts(
    slurm: SlurmStandIn, settings: Config
) -> None:
    async with running(slurm, settings) as daemon:
        (job_id,) = slurm.submit(gpus=2)
        await daemon.until_running(job_id)
        slurm.stop(job_id)
        await daemon.until(lambda: stop_count(daemon, job_id) == 1, "it came back")
        await daemon.until_running(job_id)


async def test_earlier_runs_outlive_reloads_and_restarts(
    slurm: SlurmStandIn, settings: Config
) -> None:
    async def reload(daemon: Running) -> None:
        old = daemon.daemon.state.engine
        daemon.daemon.reload()
        await daemon.until(lambda: daemon.daemon.state.engine is not old, "a fresh engine")
        await daemon.until(lambda: known(daemon) is not None, "it has the job")

    def known(daemon: Running) -> JobRecord | None:
        return dict(daemon.daemon.state.engine.records()).get(job_id)

    def runs(daemon: Running) -> tuple[int, float, tuple[float, ...]]:
        record = daemon.daemon.state.engine.record(job_id)
        return record.stop_count, record.earlier_run_s, record.earlier_run_s_by_tier

    async with running(slurm, settings) as daemon:
        (job_id,) = slurm.submit(gpus=8)
        await daemon.until_running(job_id)
        slurm.stop(job_id)
        await daemon.until(lambda: stop_count(daemon, job_id) == 1, "it came back")
        before = runs(daemon)
        assert before[1] > 0
        await reload(daemon)
        assert runs(daemon) == before
        await daemon.until_running(job_id)
        await reload(daemon)
        assert runs(daemon) == before
    async with running(slurm, settings) as daemon:
        await daemon.until(lambda: known(daemon) is not None, "it has the job")
        assert runs(daemon) == before
        slurm.stop(job_id)
        await daemon.until(lambda: stop_count(daemon, job_id) == 2, "it came back again")
        before = runs(daemon)
    async with running(slurm, settings) as daemon:
        await daemon.until(lambda: known(daemon) is not None, "it has the job")
        assert runs(daemon) == before
    assert_replays(settings)


async def test_pins_and_budgets_outlive_a_restart(slurm: SlurmStandIn, settings: Config) -> None:
    async with running(slurm, settings) as daemon:
        (victim,) = slurm.submit(gpus=8, comment=SAVES)
        await daemon.until_running(victim)
        (waiting,) = slurm.submit(gpus=8)
        await daemon.until_running(waiting)
        now_s = daemon.daemon.state.clock.now_s()
        event = TimerPinned(at_s=now_s, timer="8/high", pinned_s=300.0)
        await daemon.daemon.parts.report(event)  # as the Admin service does
    async with running(slurm, settings) as daemon:
        async with daemon.operator() as operator:
            listed = await operator.ListTimers(pb.ListTimersRequest())
        pinned = {timer.name: timer.pinned_s for timer in listed.timers if timer.pinned_s}
        assert pinned == {"8/high": 300.0}
        policy = daemon.daemon.state.engine.policies.preemption
        assert isinstance(policy, NetworkPreemption)
        assert [job_id for job_id, _ in policy.state().asked] == [victim]
    assert TimerPinned in assert_replays(settings)


async def test_a_restarted_daemon_may_stop_a_job_that_ran_before_it(
    slurm: SlurmStandIn, settings: Config
) -> None:
    async with running(slurm, settings) as daemon:
        (victim,) = slurm.submit(gpus=8, comment=SAVES)
        await daemon.until_running(victim)
    async with running(slurm, settings) as daemon:
        (waiting,) = slurm.submit(gpus=8)
        await daemon.until_running(waiting)
        assert slurm.state(victim) is SlurmJobState.PENDING
        slurm.end(waiting)
        await daemon.until_running(victim)
        assert stop_count(daemon, victim) == 1
    assert_replays(settings)


async def test_knowledge_that_cannot_be_read_starts_empty(
    slurm: SlurmStandIn, settings: Config
) -> None:
    settings.paths.state_dir.mkdir(parents=True)
    journal = Journal.open(settings.paths.state_dir)
    journal.write([Memo(b"\x05\x00\x00\x00no...")])
    journal.close()
    async with running(slurm, settings) as daemon:
        await daemon.until_running(*slurm.submit(gpus=1))
