import asyncio
import os
import socket
import time
import weakref
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.daemon.rpc.probes import floats, hello, sample
from tests.daemon.running import PATIENCE_S, config, running

from roost_engine.domain.errors import ConfigError
from roost_engine.domain.events import LoadsSeen, TopologySeen
from roost_engine.domain.model import JobId, NodeName, Placement
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import JobState
from roost_engine.plugins.plugins import Policies
from roost_engine.testing import builders
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.journal import FILE_NAME
from roost_formats.journal.reader import JournalReader
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import telemetry_pb2 as probe_pb
from roost_slurm.hooks import heartbeat
from roost_slurm.text.squeue import SlurmJobState
from roostd.app.daemon import UPKEEP_S
from roostd.config.config import Config
from roostd.ops.folders import StateFolderInUse
from roostd.slurm.jobs import NO_LEASE
from roostd.testing.slurm_faults import Fault
from roostd.testing.slurm_stand_in import SlurmStandIn


@pytest.fixture
def slurm() -> SlurmStandIn:
    return SlurmStandIn([builders.node("n1"), builders.node("n2")])


def beat(settings: Config) -> heartbeat.Heartbeat:
    return heartbeat.parse((settings.paths.runtime_dir / "heartbeat").read_text())


async def test_jobs_run_on_exactly_the_gpus_that_were_chosen(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        jobs = [
            *slurm.submit(gpus_per_node=3, nodes=(2, 2)),
            *slurm.submit(gpus_per_node=2),
            *slurm.submit(gpus=4),
            *slurm.submit(gpus_per_node=1, array=range(3)),
        ]
        await daemon.until_running(*jobs)

        for job_id in jobs:
            assert await daemon.allocated(job_id) == daemon.planned(job_id) != {}
        assert daemon.count("roost_allocation_mismatches_total") == 0
        assert daemon.count("roost_pins_total", outcome="pinned") == len(jobs)


async def test_jobs_that_were_there_before_the_daemon_are_placed_too(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    (job_id,) = slurm.submit(gpus_per_node=2)

    async with running(slurm, config(tmp_path)) as daemon:
        await daemon.until_running(job_id)


async def test_a_spool_that_cannot_be_read_for_a_while_wakes_the_daemon_again_later(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    seldom = {"poll_interval_s": 600.0, "lease_s": 60.0}
    async with running(slurm, config(tmp_path, slurm=seldom)) as daemon:
        spool_file = tmp_path / "run" / "spool" / "events"
        spool_file.mkdir()
        await asyncio.sleep(0.1)  # the daemon stumbles over it
        spool_file.rmdir()
        await daemon.until_running(*slurm.submit(gpus_per_node=2))


async def test_shadow_mode_decides_and_touches_nothing(slurm: SlurmStandIn, tmp_path: Path) -> None:
    async with running(slurm, config(tmp_path, mode="shadow")) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until(lambda: job_id in daemon.places(), "a decision")

        assert slurm.state(job_id) is SlurmJobState.PENDING
    assert slurm.argvs == []


async def test_advise_mode_writes_into_the_admin_comment_only(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path, mode="advise")) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until(lambda: bool(slurm.argvs), "advice was written")

    (argv,) = slurm.argvs
    assert argv[2] == f"jobid={job_id}"
    assert argv[3] == "AdminComment=roost:lease roost:advice nodes=n1 gpus=0,1"


async def test_comments_say_when_jobs_are_expected_to_start_where_the_site_wants_it(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    settings = config(tmp_path, eta={"interval_s": 1.0, "admin_comment": True})
    async with running(slurm, settings) as daemon:
        first, second = [slurm.submit(gpus_per_node=8)[0] for _ in range(2)]
        await daemon.until_running(first, second)
        (third,) = slurm.submit(gpus_per_node=8)
        await daemon.until(lambda: "roost:eta[start 20" in slurm.admin_comment(third), "a forecast")
        assert slurm.admin_comment(third).startswith("roost:lease")
        slurm.end(first)
        await daemon.until_running(third)


async def test_a_partition_that_is_off_is_left_alone_and_explained(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    settings = config(tmp_path, partitions={"main": {"mode": "off"}})
    async with running(slurm, settings) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=2, user_id=7)
        (cpu_job,) = slurm.submit(begin_epoch_s=4e9)
        await daemon.until(
            lambda: cpu_job in daemon.daemon.state.unmanaged_reasons, "both are seen"
        )
        async with daemon.operator() as operator:
            told = await operator.ExplainJob(pb.ExplainJobRequest(job_id=job_id))
            cpu_told = await operator.ExplainJob(pb.ExplainJobRequest(job_id=cpu_job))
            listed = await operator.ListJobs(pb.ListJobsRequest())

    assert (told.job.state, told.job.user_id) == (pb.JOB_STATE_LET_GO, 7)
    assert told.job.reason == "partition main is off"
    assert cpu_told.job.reason == "partition main is off"
    assert [job.job_id for job in listed.jobs] == [job_id]
    assert slurm.argvs == []


async def test_jobs_without_gpus_are_left_alone_and_explained(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        (waiting,) = slurm.submit(begin_epoch_s=4e9)
        (started,) = slurm.submit()
        await daemon.until_running(started)
        async with daemon.operator() as operator:
            told = [
                await operator.ExplainJob(pb.ExplainJobRequest(job_id=job_id))
                for job_id in (waiting, started)
            ]

    assert [one.job.reason for one in told] == ["asks for no GPUs"] * 2


async def test_a_job_that_slurm_starts_at_once_tells_why_also_after_its_end(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        slurm.lease_s = None  # as job_submit.lua leaves --exclusive and its like
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until_running(job_id)
        async with daemon.operator() as operator:
            running_told = await operator.ExplainJob(pb.ExplainJobRequest(job_id=job_id))
            slurm.end(job_id)
            find = daemon.daemon.state.engine.find
            await daemon.until(lambda: find(job_id).state is JobState.ENDED, "its end is known")
            ended_told = await operator.ExplainJob(pb.ExplainJobRequest(job_id=job_id))

    assert (running_told.job.state, ended_told.job.state) == (
        pb.JOB_STATE_RUNNING,
        pb.JOB_STATE_ENDED,
    )
    reason = NO_LEASE
    assert [running_told.job.reason, ended_told.job.reason] == [reason, reason]


async def test_jobs_that_ran_before_the_daemon_show_their_users(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    (with_gpus,) = slurm.submit(gpus_per_node=1, user_id=7)
    (without,) = slurm.submit(user_id=8)
    slurm.tick()
    await slurm.release([with_gpus])

    async with running(slurm, config(tmp_path)) as daemon:
        await daemon.until_running(with_gpus, without)
        async with daemon.operator() as operator:
            jobs = [
                await operator.GetJob(pb.GetJobRequest(job_id=job_id))
                for job_id in (with_gpus, without)
            ]
        slurm.end(with_gpus)
        records = daemon.daemon.state.engine.records
        await daemon.until(lambda: with_gpus not in dict(records()), "its end is known")
        async with daemon.operator() as operator:
            ended = await operator.GetJob(pb.GetJobRequest(job_id=with_gpus))

    assert [(job.user_id, job.partition) for job in jobs] == [(7, "main"), (8, "main")]
    assert (ended.state, ended.user_id) == (pb.JOB_STATE_ENDED, 7)


async def test_waiting_and_held_jobs_keep_their_leases(slurm: SlurmStandIn, tmp_path: Path) -> None:
    settings = {"lease_s": 600.0, "standing_pins": False}  # a pinned job has no lease
    async with running(slurm, config(tmp_path, slurm=settings)) as daemon:
        (first,) = slurm.submit(gpus_per_node=8, nodes=(2, 2))
        await daemon.until_running(first)
        (waiting,) = slurm.submit(gpus_per_node=2)
        (held,) = slurm.submit(gpus_per_node=2)
        slurm.hold(held)
        await daemon.until(
            lambda: set(daemon.daemon.parts.watch.leased()) == {waiting, held}, "both are seen"
        )
        await daemon.daemon.parts.applier.renew(daemon.daemon.parts.watch.leased())

        # The engine may have heard of a job an instant later: then the daemon's own renewal counts.
        await daemon.until(
            lambda: min(map(slurm.lease_left_s, (waiting, held))) > 500, "both leases are renewed"
        )


async def test_a_refused_placement_is_decided_again(slurm: SlurmStandIn, tmp_path: Path) -> None:
    slurm.inject("pin", Fault.REFUSED)
    settings = config(tmp_path, engine={"refusal_backoff_s": 0.05})
    async with running(slurm, settings) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until_running(job_id)

        assert daemon.count("roost_pins_total", outcome="refused") == 1
        assert await daemon.allocated(job_id) == daemon.planned(job_id)


async def test_a_job_that_is_refused_again_and_again_goes_to_plain_slurm(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    slurm.inject("pin", Fault.REFUSED, Fault.REFUSED)
    settings = config(tmp_path, engine={"refusal_backoff_s": 0.05, "refusal_limit": 2})
    async with running(slurm, settings) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until_running(job_id)

        assert daemon.count("roost_jobs_let_go_total") == 1


async def test_a_pinned_job_that_slurm_does_not_start_is_leased_and_placed_again(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    settings = config(tmp_path, engine={"start_timeout_s": 0.3, "refusal_backoff_s": 0.05})
    async with running(slurm, settings) as daemon:
        # Slurm's node has fewer CPUs than it reported: only slurmctld knows what uses them.
        slurm.set_node(builders.node("n1", cpu_count=0))
        slurm.set_node(builders.node("n2", cpu_count=0))
        daemon.daemon.parts.watch._schedule.note_nodes_read(float("inf"))
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until(lambda: daemon.daemon.state.engine.refused_count > 0, "a time-out")
        await daemon.until(lambda: slurm.lease_left_s(job_id) > 30, "it is held again")
        slurm.set_node(builders.node("n1"))
        slurm.set_node(builders.node("n2"))
        await daemon.until_running(job_id)

        assert await daemon.allocated(job_id) == daemon.planned(job_id)


async def test_the_heartbeat_says_what_is_enforced_and_goes_when_the_daemon_goes(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    settings = config(
        tmp_path,
        partitions={"slow": {"mode": "shadow"}},
        slurm={"first_lease_s": 7.0, "model_names": ["A100"]},
    )
    async with running(slurm, settings) as daemon:
        path = settings.paths.runtime_dir / "heartbeat"
        await daemon.until(path.exists, "a heartbeat")

        told = beat(settings)
        assert (told.lease_s, told.enforce, told.excepted) == (7, ("*",), ("slow",))
        assert told.models == ("a100",)
    assert not path.exists()


async def test_no_heartbeat_while_slurm_does_not_answer(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    settings = config(tmp_path)
    slurm.inject("nodes", *[Fault.LOST_BEFORE] * 2)
    async with running(slurm, settings) as daemon:
        assert not (settings.paths.runtime_dir / "heartbeat").exists()
        async with daemon.operator() as operator:
            status = await operator.GetStatus(pb.GetStatusRequest())
        assert "gave no answer" in status.slurm_fault
        await daemon.until(lambda: not daemon.daemon.state.slurm_fault, "Slurm is back")
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until_running(job_id)


async def test_live_load_of_probes_reaches_the_decision(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        async with daemon.telemetry() as stub:
            call = stub.Stream()
            await call.write(probe_pb.ProbeMessage(hello=hello("n1", 8, lanes={(2, 5): 4})))
            await call.read()
            busy = sample(1, 8, sm_frac=floats(*[0.9] * 8))
            await call.write(probe_pb.ProbeMessage(sample=busy))
            board = daemon.daemon.state.board
            report = board.report(NodeName("n1"))
            assert report is not None
            await daemon.until(lambda: report.sample is not None, "a sample")
            (job_id,) = slurm.submit(gpus_per_node=2, node_list="n1")
            await daemon.until_running(job_id)

        assert daemon.planned(job_id) == {"n1": (2, 5)}
        decision = daemon.daemon.state.engine.record(job_id).decision
        assert decision is not None
        assert decision.get().features[0].max() > 0.8


async def test_a_node_whose_probe_came_before_slurm_knew_it_gets_its_links(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        greeting = probe_pb.ProbeMessage(hello=hello("n3", 8, lanes={(1, 6): 4}))
        async with daemon.telemetry() as stub:
            early = stub.Stream()
            await early.write(greeting)
            assert await early.code() is grpc.StatusCode.NOT_FOUND
            slurm.set_node(builders.node("n3"))
            await daemon.until(lambda: "n3" in daemon.daemon.state.engine.cluster.index_of, "n3")
            call = stub.Stream()
            await call.write(greeting)
            await call.read()
            (job_id,) = slurm.submit(gpus_per_node=2, node_list="n3")
            await daemon.until_running(job_id)

        assert daemon.planned(job_id) == {"n3": (1, 6)}


async def test_a_replay_of_the_journal_gives_the_same_actions_byte_for_byte(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    settings = config(tmp_path, engine={"refusal_backoff_s": 0.05})
    slurm.inject("pin", Fault.REFUSED)
    async with running(slurm, settings) as daemon:
        async with daemon.telemetry() as stub:
            call = stub.Stream()
            await call.write(probe_pb.ProbeMessage(hello=hello("n1", 8, lanes={(2, 5): 4})))
            await call.read()
            await call.write(probe_pb.ProbeMessage(sample=sample(1, 8)))
            jobs = [job for count in (1, 2, 4, 5) for job in slurm.submit(gpus_per_node=count)]
            await daemon.until_running(*jobs)
        slurm.end(jobs[0])
        await daemon.until(
            lambda: jobs[0] not in dict(daemon.daemon.state.engine.known_jobs()), "the end is known"
        )

    reader = JournalReader(settings.paths.state_dir / FILE_NAME)
    kinds = set()
    for run in reader.runs():
        engine = Engine(decode(run.head.config, EngineConfig), Policies())
        for step in reader.steps(run):
            kinds.add(type(step.event))
            assert encode(engine.step(step.event)) == encode(step.actions)
        engine.check_invariants()
    reader.close()
    assert {LoadsSeen, TopologySeen} <= kinds


async def test_what_was_decided_is_still_known_after_a_restart(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    settings = config(tmp_path)
    async with running(slurm, settings) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until_running(job_id)
        first_s = daemon.daemon.state.clock.now_s()

    async with running(slurm, settings) as daemon:
        await daemon.until_running(job_id)
        async with daemon.operator() as operator:
            job = await operator.GetJob(pb.GetJobRequest(job_id=job_id))

        assert [allocation.node for allocation in job.planned] == ["n1"]
        assert job.planned == job.allocated
        assert daemon.daemon.state.clock.now_s() >= first_s


async def test_engine_time_continues_though_the_clock_was_set_back_while_no_roostd_ran(
    slurm: SlurmStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, wall_s = config(tmp_path), time.time
    async with running(slurm, settings) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until_running(job_id)
    reader = JournalReader(settings.paths.state_dir / FILE_NAME)
    newest_s = max(step.event.at_s for run in reader.runs() for step in reader.steps(run))
    reader.close()

    monkeypatch.setattr(time, "time", lambda: wall_s() - 3600.0)
    async with running(slurm, settings) as daemon:
        now_s = daemon.daemon.state.clock.now_s()
        assert newest_s <= now_s < newest_s + PATIENCE_S


async def test_the_first_engine_is_freed_by_a_reload(slurm: SlurmStandIn, tmp_path: Path) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        gone = weakref.ref(daemon.daemon.state.engine)
        daemon.daemon.reload()
        await daemon.until(lambda: daemon.daemon.state.engine is not gone(), "a fresh engine")
        await daemon.until(lambda: gone() is None, "the end of the first engine")


async def test_a_reload_changes_modes_at_once(slurm: SlurmStandIn, tmp_path: Path) -> None:
    before = config(tmp_path, mode="shadow")
    after = config(tmp_path, mode="enforce")
    async with running(slurm, before, lambda: after) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until(
            lambda: daemon.count("roost_decisions_total", policy="heuristic") > 0, ""
        )
        assert slurm.state(job_id) is SlurmJobState.PENDING

        daemon.daemon.reload()
        await daemon.until_running(job_id)

        assert await daemon.allocated(job_id) == daemon.planned(job_id)
        assert daemon.count("roost_config_last_reload_successful") == 1


async def test_a_job_that_was_leased_and_is_left_to_slurm_waits_for_nothing(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        begin_s = int(time.time()) + 3600
        # Three GPUs do not divide between two nodes, so Roost has no place for them.
        (job_id,) = slurm.submit(gpus=3, nodes=(2, 2))
        (later,) = slurm.submit(gpus=3, nodes=(2, 2), begin_epoch_s=begin_s)
        await daemon.until(lambda: slurm.lease_left_s(job_id) <= 0, "its lease is ended")
        await daemon.until(lambda: len(slurm.argvs) == 2, "both are let go")

        assert slurm.lease_left_s(later) == pytest.approx(begin_s - time.time(), abs=2)
        for _ in range(2):
            await daemon.daemon.parts.watch.first_poll()
        assert len(slurm.argvs) == 2


@pytest.mark.parametrize("mode", ["off", "shadow", "advise"])
async def test_jobs_of_a_partition_that_is_enforced_no_more_lose_their_leases(
    slurm: SlurmStandIn, tmp_path: Path, mode: str
) -> None:
    after = config(tmp_path, mode=mode)
    async with running(slurm, config(tmp_path), lambda: after) as daemon:
        (first,) = slurm.submit(gpus_per_node=8, nodes=(2, 2))
        await daemon.until_running(first)
        waiting = [*slurm.submit(gpus_per_node=2), *slurm.submit(gpus_per_node=2, array=range(3))]
        (held,) = slurm.submit(gpus_per_node=2)
        slurm.hold(held)
        await daemon.until(
            lambda: set(daemon.daemon.parts.watch.leased()) == {*waiting, held}, "all are seen"
        )
        before = len(slurm.argvs)

        daemon.daemon.reload()
        await daemon.until(
            lambda: all(slurm.lease_left_s(job_id) <= 0 for job_id in [*waiting, held]),
            "their leases are ended",
        )

        released = [argv for argv in slurm.argvs[before:] if "AdminComment=roost:let-go" in argv]
        assert len(released) == 2  # all leased jobs in one call, and the job that waits in Slurm
        assert daemon.daemon.parts.watch.leased() == ()
        slurm.end(first)
        assert all(slurm.state(job_id) is SlurmJobState.RUNNING for job_id in waiting)


async def test_a_wrong_configuration_is_not_loaded_and_the_old_one_stays(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    def wrong() -> Config:
        raise ConfigError(["roostd.yaml:1: mode: want off, shadow, advise or enforce, got x"])

    async with running(slurm, config(tmp_path), wrong) as daemon:
        daemon.daemon.reload()
        await daemon.until(
            lambda: daemon.count("roost_config_last_reload_successful") == 0, "the metric"
        )
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until_running(job_id)


async def test_a_reload_that_needs_a_restart_is_refused_as_a_whole(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    after = config(tmp_path, mode="off", journal={"max_age_s": 1.0})
    async with running(slurm, config(tmp_path), lambda: after) as daemon:
        daemon.daemon.reload()
        await daemon.until(
            lambda: daemon.count("roost_config_last_reload_successful") == 0, "the metric"
        )

        assert daemon.daemon.state.config.mode == "enforce"


async def test_a_journal_that_cannot_be_written_does_not_stop_placement(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    settings = config(tmp_path)
    async with running(slurm, settings) as daemon:
        journal = daemon.daemon.parts.recorder._open_journal()
        journal._db.execute("PRAGMA max_page_count = 1")  # as on a full disk
        jobs = [job for _ in range(16) for job in slurm.submit(gpus_per_node=1)]
        await daemon.until_running(*jobs)
        await daemon.until(lambda: bool(daemon.daemon.state.journal_fault), "the fault shows")
        async with daemon.operator() as operator:
            status = await operator.GetStatus(pb.GetStatusRequest())

        assert "journal: database or disk is full" in status.slurm_fault
        assert daemon.count("roost_journal_dropped_records") > 0


async def test_a_run_of_the_journal_of_twice_its_size_ends_though_a_pin_is_under_way(
    slurm: SlurmStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_pin, pin = asyncio.Event(), slurm.pin

    async def slow_pin(job_id: JobId, placement: Placement, **options: Any) -> None:
        await may_pin.wait()
        await pin(job_id, placement, **options)

    monkeypatch.setattr(slurm, "pin", slow_pin)
    async with running(slurm, config(tmp_path)) as daemon:
        parts, state = daemon.daemon.parts, daemon.daemon.state
        (job_id,) = slurm.submit(gpus_per_node=1)
        await daemon.until(lambda: not parts.applier.is_idle, "a pin is under way")
        first, recorder = state.engine, parts.recorder
        await asyncio.sleep(2 * UPKEEP_S)  # the placement is written
        size = recorder._open_journal().run_bytes

        recorder._run_bytes_limit = size - 1
        for _ in range(2):  # rounds of upkeep
            await asyncio.sleep(UPKEEP_S)
        assert recorder.wants_new_run
        assert state.engine is first

        recorder._run_bytes_limit = size // 3
        await daemon.until(lambda: state.engine is not first, "a fresh engine")
        recorder._run_bytes_limit = 1 << 30
        may_pin.set()
        await daemon.until_running(job_id)


async def test_a_damaged_journal_is_put_aside(slurm: SlurmStandIn, tmp_path: Path) -> None:
    settings = config(tmp_path)
    settings.paths.state_dir.mkdir(parents=True)
    (settings.paths.state_dir / FILE_NAME).write_bytes(os.urandom(50_000))

    async with running(slurm, settings) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until_running(job_id)

    assert any("damaged" in path.name for path in settings.paths.state_dir.iterdir())


async def test_two_daemons_cannot_share_a_state_folder(slurm: SlurmStandIn, tmp_path: Path) -> None:
    async with running(slurm, config(tmp_path)):
        with pytest.raises(StateFolderInUse, match="another roostd"):
            async with running(slurm, config(tmp_path)):
                raise AssertionError("it started")


async def test_a_state_folder_that_takes_no_lock_is_named(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    settings = config(tmp_path)
    (settings.paths.state_dir / "lock").mkdir(parents=True)
    with pytest.raises(ConfigError, match=f"paths.state_dir: {settings.paths.state_dir}/lock: "):
        async with running(slurm, settings):
            raise AssertionError("it started")


async def test_a_port_that_is_taken_is_named(slurm: SlurmStandIn, tmp_path: Path) -> None:
    async with running(slurm, config(tmp_path / "a")) as first:
        port = first.daemon.parts.servers.probe_port
        settings = config(tmp_path / "b", listen={"probes": f"127.0.0.1:{port}"})
        with pytest.raises(ConfigError, match=rf"listen.probes: 127.0.0.1:{port}"):
            async with running(slurm, settings):
                raise AssertionError("it started")


@pytest.mark.parametrize("key", ["listen.metrics", "page.listen"])
async def test_a_taken_port_of_the_page_or_of_metrics_stops_the_servers_that_had_started(
    key: str, slurm: SlurmStandIn, tmp_path: Path
) -> None:
    section, _, name = key.partition(".")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        others = {"probes": "127.0.0.1:0"} if section == "listen" else {}
        settings = config(tmp_path, **{section: others | {name: address}})
        with pytest.raises(ConfigError, match=f"{key}: {address}: Address already in use"):
            async with running(slurm, settings):
                raise AssertionError("it started")
    assert not settings.operator_socket.exists()
    assert not settings.admin_socket.exists()


async def test_a_hundred_jobs_and_their_ends_leave_no_allocation(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        ticking = asyncio.create_task(slurm.run(0.02))
        for number in range(100):
            slurm.submit(gpus_per_node=1 + number % 4, run_s=0.1)
        engine = daemon.daemon.state.engine
        await daemon.until(
            lambda: engine.decision_count >= 100 and not dict(engine.known_jobs()), "all have ended"
        )
        ticking.cancel()

        engine.check_invariants()
        assert engine.cluster.free_count() == 16
        assert daemon.count("roost_allocation_mismatches_total") == 0
