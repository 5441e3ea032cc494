"""Jobs that the gate lets wait: what people see of it, and whose will counts."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.daemon.running import Running, config, running

from roost_engine.domain.model import JobId
from roost_engine.plugins.plugins import Plugins, Policies
from roost_engine.policies.protocols import Allow, Defer, GateVerdict, Offer, WaitEnded
from roost_engine.testing import builders
from roost_proto.v1 import operator_pb2 as pb
from roost_slurm.text.squeue import SlurmJobState
from roost_slurm.text.stamp import parse_stamp
from roostd.app import daemon as service
from roostd.testing.slurm_stand_in import SlurmStandIn

REASON = "waits for 4 NVLinked GPUs"


class PatientGate:
    """Makes every job wait for `wait_s` from its submission, unless `is_open` is set."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s, self.is_open = wait_s, False

    def decide(self, offer: Offer) -> GateVerdict:
        """See policies.GatePolicy."""
        if self.is_open or offer.waited_s >= self.wait_s:
            return Allow()
        return Defer(until_s=offer.at_s - offer.waited_s + self.wait_s, reason=REASON)

    def note(self, outcome: WaitEnded) -> None:
        """See policies.GatePolicy."""


@pytest.fixture
def slurm() -> SlurmStandIn:
    return SlurmStandIn([builders.node("n1"), builders.node("n2")])


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> PatientGate:
    gate = PatientGate(3600.0)
    monkeypatch.setattr(Plugins, "_with_gate", lambda _, policies: replace(policies, gate=gate))
    monkeypatch.setattr(service, "ANNOUNCE_S", 0.05)
    return gate


async def until_deferred(daemon: Running, job_id: JobId) -> None:
    def is_deferred() -> bool:
        known = dict(daemon.daemon.state.engine.records())
        return job_id in known and known[job_id].reason == REASON

    await daemon.until(is_deferred, f"{job_id} waits by the gate")


async def test_a_waiting_job_says_what_for_and_until_when_and_keeps_its_stamp(
    slurm: SlurmStandIn, gate: PatientGate, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        began_s = time.time()
        (job_id,) = slurm.submit(gpus_per_node=4)
        await daemon.until(lambda: REASON in slurm.admin_comment(job_id), "it says so")
        comment = slurm.admin_comment(job_id)
        deadlines = {time.strftime("%H:%M", time.localtime(began_s + 3600 + s)) for s in (0, 60)}
        assert comment in {f"roost:lease roost:advice {REASON}, until {at}" for at in deadlines}
        assert parse_stamp(comment) is not None
        async with daemon.operator() as operator:
            told = await operator.ExplainJob(pb.ExplainJobRequest(job_id=job_id))
        assert told.job.reason == REASON
        assert told.job.wait_left_s == pytest.approx(3600, abs=20)


async def test_one_reason_is_written_to_all_its_jobs_in_one_call(
    slurm: SlurmStandIn, gate: PatientGate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(service, "ANNOUNCE_S", 1.0)
    jobs = [job_id for _ in range(150) for job_id in slurm.submit(gpus_per_node=1)]
    async with running(slurm, config(tmp_path)) as daemon:
        await daemon.until(lambda: REASON in slurm.admin_comment(jobs[-1]), "the last one says so")
    told = [argv for argv in slurm.argvs if argv[-1].startswith("AdminComment=")]
    assert len(told) <= 2  # the minute may turn between two jobs
    assert sum(argv[2].count(",") + 1 for argv in told) == 150


async def test_hundreds_of_leases_are_renewed_in_one_call(
    slurm: SlurmStandIn, gate: PatientGate, tmp_path: Path
) -> None:
    jobs = [job_id for _ in range(300) for job_id in slurm.submit(gpus_per_node=1)]
    async with running(slurm, config(tmp_path)) as daemon:
        await daemon.until(lambda: bool(daemon.count("roost_lease_renewals_total")), "a renewal")
        renewals = [argv for argv in slurm.argvs if argv[-1] == "StartTime=now+60"]
        assert [argv[2].count(",") + 1 for argv in renewals] == [300]
        assert all(slurm.state(job_id) is SlurmJobState.PENDING for job_id in jobs)


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
async def test_a_clock_that_jumps_an_hour_moves_no_deadline(
    slurm: SlurmStandIn,
    gate: PatientGate,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    jump_s: float,
) -> None:
    gate.wait_s = 3.0  # it must be seen meanwhile
    async with running(slurm, config(tmp_path)) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=4)
        await until_deferred(daemon, job_id)
        record, state = daemon.daemon.state.engine.record(job_id), daemon.daemon.state
        deadline_s, real = record.until_s, time.time
        monkeypatch.setattr(time, "time", lambda: real() + jump_s)
        await daemon.until(lambda: record.state != "waiting", "the deadline comes")
        assert deadline_s is not None
        assert 0.0 <= state.clock.now_s() - deadline_s < 60.0
        assert record.decision is not None
        assert record.decision.get().at_s >= deadline_s
        await daemon.until_running(job_id)


async def test_a_held_job_is_placed_after_its_release(
    slurm: SlurmStandIn, gate: PatientGate, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=4)
        await until_deferred(daemon, job_id)
        slurm.hold(job_id)
        await daemon.until(
            lambda: job_id in daemon.daemon.state.unmanaged, "Roost takes the hold in"
        )
        gate.is_open = True
        slurm.hold(job_id, release=True)
        await daemon.until_running(job_id)


async def test_a_job_that_is_cancelled_while_it_waits_is_gone(
    slurm: SlurmStandIn, gate: PatientGate, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=4)
        await until_deferred(daemon, job_id)
        slurm.end(job_id)
        await daemon.until(lambda: not daemon.daemon.state.engine.waiting(), "nobody waits")


async def test_a_job_that_its_owner_starts_now_runs(
    slurm: SlurmStandIn, gate: PatientGate, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=4)
        await until_deferred(daemon, job_id)
        slurm.update(job_id, StartTime="now")
        assert slurm.state(job_id) is SlurmJobState.RUNNING
        await daemon.until_running(job_id)


async def test_a_job_with_a_changed_request_is_decided_again(
    slurm: SlurmStandIn, gate: PatientGate, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=4)
        await until_deferred(daemon, job_id)
        gate.is_open = True
        slurm.update(job_id, TresPerNode="gres/gpu:2")
        await daemon.until_running(job_id)
        assert [len(gpus) for gpus in (await daemon.allocated(job_id)).values()] == [2]


async def test_nonsense_in_a_comment_is_explained_and_refuses_no_job(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        (job_id,) = slurm.submit(gpus=1, comment="x roost:modle=a,checkpoint=soon,model=bert")
        await daemon.until_running(job_id)
        async with daemon.operator() as operator:
            told = await operator.ExplainJob(pb.ExplainJobRequest(job_id=job_id))
    assert told.comment.model == "bert"
    assert not told.comment.HasField("checkpoint_s")
    assert list(told.comment.problems) == [
        "'modle': unknown key, did you mean model?",
        "checkpoint: want seconds above 0, such as 600, got 'soon'",
    ]


async def test_a_reload_with_an_open_gate_places_the_jobs_that_wait_for_closer_gpus(
    slurm: SlurmStandIn, gate: PatientGate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def with_gate(plugins: Plugins, policies: Policies) -> Policies:
        return policies if plugins.gate is None else replace(policies, gate=gate)

    monkeypatch.setattr(Plugins, "_with_gate", with_gate)
    opened = config(tmp_path, gate={"kind": "open"})
    async with running(slurm, config(tmp_path), lambda: opened) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=4)
        await until_deferred(daemon, job_id)
        daemon.daemon.reload()
        await daemon.until_running(job_id)
