"""Which jobs get a seat beside which; then random events, against the rules of sharing."""

import weakref
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from roost_engine.domain.events import (
    ForeignMemorySeen,
    GpuHealthChanged,
    JobsStopped,
    JobStarted,
    NodeSeen,
    SharingWithdrawn,
    SpeedSeen,
)
from roost_engine.domain.model import JobId, JobSpec, NodeName
from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobState, shares_of
from roost_engine.plugins.plugins import Policies
from roost_engine.sharing.pairs import Pairs, PairSpeed, SeparationConfig, SharingConfig
from roost_engine.sharing.separation_budget import SeparationBudget
from roost_engine.testing.builders import (
    EngineHarness,
    bridges,
    job,
    node,
    placed,
    preempted,
    topology,
)
from roost_engine.testing.fakes import FakePreemption

GIB = 1 << 30
GOOD, BAD = "good", "bad"
PAIRS = (PairSpeed(GOOD, GOOD, 0.95), PairSpeed(GOOD, BAD, 0.95), PairSpeed(BAD, GOOD, 0.6))


def preempting() -> EngineHarness:
    """Two GPUs; a job of higher priority stops others."""
    return harness(policies=Policies(preemption=FakePreemption()))


def harness(
    gpu_count: int = 2, *, nodes: Sequence[str] = ("n1",), policies: Policies | None = None
) -> EngineHarness:
    found = EngineHarness(
        config=EngineConfig(patience_s=600.0),
        policies=replace(policies or Policies(), sharing=Pairs(SharingConfig(pairs=PAIRS))),
    )
    for name in nodes:
        spec = replace(node(name, gpu_count), has_seats=True)
        found.feed(NodeSeen(at_s=0.0, node=spec))
        seen = topology(name, bridges(gpu_count))
        found.feed(replace(seen, gpu_memory_bytes=40 * GIB))
    return found


def asks(
    job_id: str, gpus: int = 1, *, shares: bool = True, gib: int = 16, model: str = GOOD
) -> JobSpec:
    return replace(
        job(job_id, gpus=gpus), shares_gpus=shares, gpu_memory_bytes=gib * GIB, model=model
    )


def test_an_engine_that_shares_gpus_is_freed_by_its_last_reference() -> None:
    site = harness()
    site.run(asks("1"), asks("2"), asks("3"))
    gone = weakref.ref(site.engine)
    del site
    assert gone() is None


def test_the_third_job_on_two_gpus_shares_and_the_fifth_waits() -> None:
    site = harness()
    site.run(asks("1"), asks("2"), asks("3"))
    assert site.state("3") is JobState.RUNNING
    assert site.placement("3").seat == 1
    assert site.placement("3").gpu_indices == site.placement("1").gpu_indices
    site.run(asks("4"), asks("5"))
    assert site.state("4") is JobState.RUNNING
    assert site.state("5") is JobState.WAITING
    decision = site.engine.record(JobId("3")).decision
    assert decision is not None
    assert decision.get().neighbour == (
        "no node has whole GPUs free: shares them with job 1; it is expected to lose 5%, surely"
        " less than 9%, and job 1 5%, surely less than 9%"
    )
    site.engine.check_invariants()


@pytest.mark.parametrize(
    "other",
    [
        asks("3", shares=False),
        asks("3", gib=25),
        asks("3", gib=0),
        asks("3", model=BAD),
        asks("3", model="never seen"),
        replace(asks("3"), binding=False),
        replace(asks("3", gpus=1), shapes=job("x", gpus=1, nodes=2).shapes),
    ],
    ids=["no-opt-in", "memory", "memory-unknown", "bad-pair", "unmeasured", "shadow", "two-nodes"],
)
def test_no_seat_for_others(other: JobSpec) -> None:
    site = harness()
    site.run(asks("1"), asks("2"), other)
    assert site.state("3") is not JobState.PLACING
    assert site.state("3") is not JobState.RUNNING


def test_no_job_joins_one_whose_owner_took_the_opt_in_back() -> None:
    site = harness()
    site.run(asks("1"), asks("2"), asks("3"))
    for job_id in "123":  # two of them are a pair, which stays
        site.feed(SharingWithdrawn(at_s=site.now_s, job_id=JobId(job_id)))
    site.feed(SharingWithdrawn(at_s=site.now_s, job_id=JobId("never seen")))
    site.run(asks("4"))
    assert [site.state(job_id) for job_id in "1234"] == [*[JobState.RUNNING] * 3, JobState.WAITING]
    site.engine.check_invariants()
    site.end("2")
    assert site.state("4") is not JobState.WAITING
    assert site.placement("4").seat == 0


def test_a_job_that_has_not_started_beside_one_that_opts_out_waits_again() -> None:
    site = harness()
    site.run(asks("1"), asks("2"))
    site.queue(asks("3"))
    assert site.placement("3").seat == 1
    [host] = [
        one for one in "12" if site.placement(one).gpu_indices == site.placement("3").gpu_indices
    ]
    site.feed(SharingWithdrawn(at_s=site.now_s, job_id=JobId(host)))
    # In the same pass it is placed beside the other one.
    assert site.state("3") is JobState.PLACING
    assert site.placement("3").gpu_indices != site.placement(host).gpu_indices
    site.feed(SharingWithdrawn(at_s=site.now_s, job_id=JobId("2" if host == "1" else "1")))
    assert site.state("3") is JobState.WAITING
    site.engine.check_invariants()


def report(site: EngineHarness, job_id: str, speed_frac: float) -> None:
    site.feed(SpeedSeen(at_s=site.now_s, job_id=JobId(job_id), speed_frac=speed_frac))


def test_a_pair_that_turns_out_bad_is_not_made_again() -> None:
    site = harness()
    site.run(asks("1"), asks("2"), asks("3"))
    report(site, "3", 0.5)
    site.run(asks("4"))
    assert site.state("4") is JobState.WAITING
    assert site.state("3") is JobState.RUNNING


def test_what_a_job_loses_without_a_neighbour_is_not_blamed_on_one() -> None:
    site = harness()
    site.run(asks("1"), asks("2"))
    report(site, "1", 0.5)
    report(site, "2", 0.5)
    site.run(asks("3"))
    report(site, "1", 0.49)
    site.run(asks("4"))
    assert site.state("4") is JobState.RUNNING


def test_nobody_joins_a_job_that_did_not_opt_in() -> None:
    site = harness()
    site.run(asks("1", shares=False), asks("2", shares=False), asks("3"))
    assert site.state("3") is JobState.WAITING
    assert "GPU" in site.reason("3")


def test_a_gpu_with_a_seat_taken_is_not_free() -> None:
    site = harness()
    site.run(asks("1"), asks("2"), asks("3"))
    site.end("1")  # the host ends first
    site.run(asks("4", shares=False))
    assert site.state("4") is JobState.WAITING
    site.end("3")
    assert site.state("4") is JobState.PLACING


def test_the_first_seat_is_taken_again_when_the_host_ends_first() -> None:
    site = harness()
    site.run(asks("1"), asks("2"), asks("3"), asks("4"), asks("5"))
    site.end("1")
    assert site.state("5") is JobState.PLACING
    assert site.placement("5").seat == 0
    assert site.placement("5").gpu_indices == site.placement("3").gpu_indices


def test_jobs_of_several_gpus_of_one_node_share_too() -> None:
    site = harness(4)
    site.run(asks("1", 4), asks("2", 2), asks("3", 2), asks("4", 1))
    assert site.state("3") is JobState.RUNNING
    found = site.placement("2").gpu_indices + site.placement("3").gpu_indices
    assert sorted(found) == [0, 1, 2, 3]
    assert site.state("4") is JobState.WAITING


def test_no_seat_on_a_broken_gpu_nor_where_slurm_has_none() -> None:
    site = harness()
    site.run(asks("1"), asks("2"))
    for gpu in range(2):
        site.feed(GpuHealthChanged(at_s=0.0, name=NodeName("n1"), gpu_index=gpu, fault="MIG is on"))
    site.run(asks("3"))
    assert site.state("3") is JobState.WAITING
    plain = harness()
    plain.feed(NodeSeen(at_s=0.0, node=node("n1", 2)))
    plain.run(asks("1"), asks("2"), asks("3"))
    assert plain.state("3") is JobState.WAITING


def test_no_seat_on_a_gpu_whose_memory_processes_of_no_job_use() -> None:
    site = harness()
    site.run(asks("1"), asks("2"))
    for gpu in range(2):
        seen = ForeignMemorySeen(at_s=0.0, name=NodeName("n1"), gpu_index=gpu, used_bytes=20 << 30)
        site.feed(seen)
    site.run(asks("3"))
    assert site.state("3") is JobState.WAITING


def test_a_gpu_that_falls_off_under_two_jobs_takes_no_third() -> None:
    site = harness()
    site.run(asks("1"), asks("2"), asks("3"))
    (gpu,) = site.placement("3").gpu_indices
    name = NodeName("n1")
    site.feed(GpuHealthChanged(at_s=0.0, name=name, gpu_index=gpu, fault="has fallen off the bus"))
    site.end("1")
    assert site.state("3") is JobState.RUNNING  # Slurm ends it, or its user
    site.run(asks("4"), asks("5"), asks("6", shares=False))
    assert site.state("4") is JobState.RUNNING  # beside job 2, on the other GPU
    assert site.placement("4").gpu_indices != (gpu,)
    site.end("3")
    for job_id in ("5", "6"):
        assert site.state(job_id) is JobState.WAITING
    site.engine.check_invariants()


def test_a_job_pinned_to_a_second_seat_gets_no_first_one() -> None:
    site = harness()
    site.run(replace(asks("1"), fixed_indices=(1,), fixed_seat=1))
    assert site.placement("1").seat == 1
    assert site.placement("1").gpu_indices == (1,)


def test_without_sharing_nothing_is_shared() -> None:
    site = EngineHarness([replace(node("n1", 1), has_seats=True)])
    site.run(asks("1"), asks("2"))
    assert site.state("2") is JobState.WAITING
    assert site.engine.cluster.seats is None


def test_a_job_without_a_host_joins_one_that_starts_later() -> None:
    site = harness()
    site.run(asks("1", shares=False))
    site.queue(asks("2"))
    site.queue(asks("3"))
    assert site.state("3") is JobState.WAITING  # job 2 has not started
    site.start("2")
    assert site.state("3") is JobState.PLACING
    assert site.placement("3").gpu_indices == site.placement("2").gpu_indices


def test_both_jobs_of_a_pair_stop_for_one_of_higher_priority() -> None:
    site = preempting()
    site.run(*(replace(asks(one), priority=1) for one in "1234"))
    actions = site.queue(replace(job("5", gpus=2), priority=2))
    assert sorted(preempted(actions)) == ["1", "2", "3", "4"]
    site.stop("1", "2", "3")
    assert site.state("5") is JobState.CLEARING
    # Nothing joins a job that is about to leave, and the GPUs that became free are held.
    site.queue(replace(asks("6"), priority=1))
    assert site.state("6") is JobState.WAITING
    assert placed(site.stop("4"))["5"].gpu_indices == (0, 1)
    site.engine.check_invariants()


def test_a_job_does_not_stop_where_its_partner_may_not() -> None:
    site = preempting()
    site.run(*(replace(asks(one), priority=1) for one in "12"), replace(asks("3"), priority=3))
    assert not preempted(site.queue(replace(job("4", gpus=2), priority=2)))
    # Job 2 has its GPU alone.
    assert preempted(site.queue(replace(job("5", gpus=1), priority=2))) == {"2": "5"}


class SharingMachine(RuleBasedStateMachine):
    """Users submit, Slurm starts, refuses, stops and ends, in any order; jobs report speeds."""

    @initialize(preempts=st.booleans(), separates=st.booleans())
    def begin(self, *, preempts: bool, separates: bool) -> None:
        config = SeparationConfig(partitions=("main",), cooldown_s=600.0)
        policies = Policies(separation=SeparationBudget(config) if separates else None)
        if preempts:
            policies = replace(policies, preemption=FakePreemption())
        self.site, self.count = harness(4, nodes=("n1", "n2"), policies=policies), 0
        self.opted: dict[str, bool] = {}

    def _in(self, *states: JobState) -> list[str]:
        return [job_id for job_id, one in self.site.engine.records() if one.state in states]

    @rule(
        gpus=st.sampled_from([1, 1, 1, 2, 4]),
        shares=st.booleans(),
        gib=st.sampled_from([0, 10, 20, 30]),
        model=st.sampled_from([GOOD, GOOD, BAD]),
        priority=st.sampled_from([1, 2]),
        checkpoint_s=st.sampled_from([None, 10.0]),
    )
    def submit(
        self,
        *,
        gpus: int,
        shares: bool,
        gib: int,
        model: str,
        priority: int,
        checkpoint_s: float | None,
    ) -> None:
        self.count += 1
        self.opted[str(self.count)] = shares
        spec = asks(str(self.count), gpus, shares=shares, gib=gib, model=model)
        self.site.queue(replace(spec, priority=priority, checkpoint_s=checkpoint_s))

    @precondition(lambda self: self._in(JobState.PLACING))
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(self._in(JobState.PLACING)))
        record = self.site.engine.record(JobId(job_id))
        assert record.placement is not None
        shares = shares_of(record.placement)
        self.site.feed(JobStarted(at_s=self.site.now_s, job_id=JobId(job_id), shares=shares))

    @precondition(lambda self: self._in(JobState.PLACING))
    @rule(data=st.data())
    def refuse(self, data: st.DataObject) -> None:
        self.site.refuse(data.draw(st.sampled_from(self._in(JobState.PLACING))))

    @precondition(lambda self: self._in(JobState.RUNNING))
    @rule(data=st.data(), requeued=st.booleans())
    def end(self, data: st.DataObject, *, requeued: bool) -> None:
        job_id = data.draw(st.sampled_from(self._in(JobState.RUNNING)))
        if requeued:
            self.site.feed(JobsStopped(at_s=self.site.now_s, job_ids=(JobId(job_id),)))
        else:
            self.site.end(job_id)

    @precondition(lambda self: self._in(JobState.STOPPING))
    @rule(data=st.data(), how=st.sampled_from(["stops", "ends", "keeps running"]))
    def answer_stop(self, data: st.DataObject, how: str) -> None:
        job_id = data.draw(st.sampled_from(self._in(JobState.STOPPING)))
        if how == "stops":
            self.site.stop(job_id)
        elif how == "ends":
            self.site.end(job_id)
        else:
            self.site.refuse_stop(job_id)

    @precondition(lambda self: self._in(JobState.RUNNING))
    @rule(data=st.data(), speed_frac=st.sampled_from([0.1, 0.3, 0.9]))
    def report(self, data: st.DataObject, speed_frac: float) -> None:
        report(self.site, data.draw(st.sampled_from(self._in(JobState.RUNNING))), speed_frac)

    @rule(seconds=st.sampled_from([1.0, 5.0, 700.0]))
    def wait(self, seconds: float) -> None:
        self.site.advance(self.site.now_s + seconds)

    @invariant()
    def keeps_the_rules(self) -> None:
        engine = self.site.engine
        engine.check_invariants()
        held: dict[tuple[str, int], list[tuple[str, int]]] = {}
        for job_id in self._in(JobState.PLACING, JobState.RUNNING, JobState.STOPPING):
            for share in engine.cluster.shares(JobId(job_id)):
                for gpu in share.gpu_indices:
                    held.setdefault((share.node, gpu), []).append((job_id, share.seat))
        for slot, sitting in held.items():
            assert len(sitting) <= 2, (slot, sitting)
            assert len({seat for _, seat in sitting}) == len(sitting), (slot, sitting)
            if len(sitting) == 2:
                assert all(self.opted[job_id] for job_id, _ in sitting), (slot, sitting)
                spec = [engine.record(JobId(job_id)).spec for job_id, _ in sitting]
                assert sum(one.gpu_memory_bytes for one in spec) <= 40 * GIB
                assert {one.model for one in spec} == {GOOD}

    def teardown(self) -> None:
        if not hasattr(self, "site"):
            return
        for job_id in [*dict(self.site.engine.records())]:
            self.site.end(job_id)
        cluster = self.site.engine.cluster
        assert cluster.free_mask[:2].tolist() == [0b1111, 0b1111]
        assert cluster.seats is not None
        assert list(cluster.seats.hosts()) == []


SharingMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestSharing = SharingMachine.TestCase
