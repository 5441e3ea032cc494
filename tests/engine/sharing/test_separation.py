"""A pair that turned out bad is separated: which job goes, when it pays, and how often at most."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from roost_engine.domain.actions import Preempt
from roost_engine.domain.events import MemorySeen, NodeSeen, SpeedSeen
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobState
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.heuristics import NoPreemption
from roost_engine.sharing.pairs import Pairs, PairSpeed, SeparationConfig, SharingConfig
from roost_engine.sharing.separation import HORIZON_S, MOST_STOPS
from roost_engine.sharing.separation_budget import SeparationBudget
from roost_engine.testing.builders import EngineHarness, bridges, job, node, placed, topology

GIB = 1 << 30
PAIRS = (PairSpeed("m", "m", 0.95),)
SEPARATION = SeparationConfig(partitions=("main",))


def site_of(
    gpu_count: int = 1,
    separation: SeparationConfig | None = SEPARATION,
    config: EngineConfig | None = None,
) -> EngineHarness:
    """One node, all jobs of one model, whose pairs lose 5 % by the site's table."""
    rule = Pairs(SharingConfig(pairs=PAIRS))
    budget = None if separation is None else SeparationBudget(separation)
    found = EngineHarness(config=config, policies=Policies(sharing=rule, separation=budget))
    add_node(found, "n1", gpu_count)
    return found


def add_node(site: EngineHarness, name: str, gpu_count: int = 1) -> None:
    site.feed(NodeSeen(at_s=site.now_s, node=replace(node(name, gpu_count), has_seats=True)))
    seen = topology(name, bridges(gpu_count), site.now_s)
    site.feed(replace(seen, gpu_memory_bytes=40 * GIB))


def asks(job_id: str, *, checkpoint_s: float | None = 60.0, gpus: int = 1) -> JobSpec:
    return replace(
        job(job_id, gpus=gpus),
        shares_gpus=True,
        gpu_memory_bytes=GIB,
        model="m",
        checkpoint_s=checkpoint_s,
    )


def report(site: EngineHarness, job_id: str, speed_frac: float) -> None:
    site.feed(SpeedSeen(at_s=site.now_s, job_id=JobId(job_id), speed_frac=speed_frac))


def asked_to_stop(site: EngineHarness) -> list[JobId]:
    return [action.job_id for action in site.actions if isinstance(action, Preempt)]


def settle(site: EngineHarness) -> None:
    site.advance(site.now_s + SEPARATION.settle_s)


def bad_pair(site: EngineHarness, *jobs: JobSpec, speed_frac: float = 0.5) -> None:
    """Have two jobs share the GPU, of which the second is slow."""
    site.run(*(jobs or (asks("1"), asks("2"))))
    report(site, "2", speed_frac)


def test_the_guest_goes_where_whole_gpus_are_free() -> None:
    site = site_of()
    bad_pair(site)
    add_node(site, "n2")
    settle(site)
    assert asked_to_stop(site) == ["2"]
    assert site.state("2") is JobState.STOPPING
    assert site.reason("2") == (
        "leaves a shared GPU: beside job 1 it reached 50% of its speed alone"
    )
    assert placed(site.stop("2"))["2"].nodes == ("n2",)
    site.engine.check_invariants()


def test_off_nothing_is_separated() -> None:
    site = site_of(separation=None)
    bad_pair(site)
    add_node(site, "n2")
    settle(site)
    assert not asked_to_stop(site)


def test_a_pair_that_is_good_again_stays() -> None:
    site = site_of()
    bad_pair(site)
    add_node(site, "n2")
    report(site, "2", 0.95)
    settle(site)
    assert not asked_to_stop(site)


def test_without_free_gpus_a_job_goes_only_where_two_get_less_done_than_one() -> None:
    site = site_of()
    bad_pair(site)
    report(site, "1", 0.6)
    settle(site)
    assert not asked_to_stop(site)
    report(site, "1", 0.2)
    assert asked_to_stop(site) == ["2"]


def test_a_stop_that_costs_more_than_it_gains_is_not_made() -> None:
    site = site_of()
    site.run(asks("1", checkpoint_s=None), asks("2", checkpoint_s=2 * HORIZON_S))
    add_node(site, "n2")
    site.advance(HORIZON_S)
    report(site, "2", 0.5)  # half an hour would be gained, and an hour lost
    settle(site)
    assert not asked_to_stop(site)


def test_the_host_goes_where_the_guest_may_not() -> None:
    site = site_of()
    bad_pair(site, asks("1"), asks("2", checkpoint_s=None))
    add_node(site, "n2")
    settle(site)
    assert asked_to_stop(site) == ["1"]
    assert "beside it job 2 reached 50%" in site.reason("1")


def test_a_user_s_reports_stop_no_job_of_another_user() -> None:
    site = site_of()
    site.run(replace(asks("1"), user_id=7), replace(asks("2"), user_id=8))
    add_node(site, "n2")
    report(site, "1", 0.3)  # the host says so, and its job may be stopped as well
    settle(site)
    assert asked_to_stop(site) == ["1"]


def test_a_job_of_another_user_goes_once_it_has_reported_a_loss_too() -> None:
    site = site_of()
    site.run(replace(asks("1", checkpoint_s=None), user_id=7), replace(asks("2"), user_id=8))
    add_node(site, "n2")
    report(site, "1", 0.3)
    settle(site)
    assert not asked_to_stop(site)
    report(site, "2", 0.5)
    settle(site)
    assert asked_to_stop(site) == ["2"]


@pytest.mark.parametrize(
    "separation",
    [SeparationConfig(partitions=()), SeparationConfig(partitions=("main",), budget_per_hour=0)],
    ids=["partition", "budget"],
)
def test_no_job_goes_that_may_not(separation: SeparationConfig) -> None:
    site = site_of(separation=separation)
    bad_pair(site)
    add_node(site, "n2")
    settle(site)
    assert not asked_to_stop(site)


def test_a_job_that_does_not_stop_runs_on_and_is_not_asked_again_soon() -> None:
    site = site_of()
    bad_pair(site)
    add_node(site, "n2")
    settle(site)
    site.refuse_stop("2")
    assert site.state("2") is JobState.RUNNING
    report(site, "2", 0.5)
    settle(site)
    assert asked_to_stop(site) == ["2", "1"]  # the other one may still go


def test_a_job_that_no_rule_of_preemption_stops_is_not_taken_for_stoppable() -> None:
    site = site_of()
    assert isinstance(site.engine.policies.preemption, NoPreemption)
    bad_pair(site)
    add_node(site, "n2")
    settle(site)
    site.refuse_stop("2")
    assert site.engine.record(JobId("2")).safe_until_s == float("inf")


def test_a_job_is_moved_so_often_and_no_more() -> None:
    site = site_of(separation=replace(SEPARATION, cooldown_s=0.0, budget_per_hour=100))
    site.run(asks("1", checkpoint_s=None), asks("2"))
    for _ in range(MOST_STOPS):
        site.stop("2")
        site.start()
    assert site.state("2") is JobState.RUNNING
    report(site, "2", 0.3)
    add_node(site, "n2")
    settle(site)
    assert not asked_to_stop(site)


def test_before_23_02_a_job_goes_only_where_its_own_index_is_free_elsewhere() -> None:
    site = site_of(2, config=EngineConfig(standing_pins_are_final=True))
    site.run(asks("1", gpus=2), asks("2"))
    (index,) = site.placement("2").gpu_indices
    report(site, "2", 0.5)
    add_node(site, "n2", 1)
    settle(site)
    assert asked_to_stop(site) == ([] if index else ["2"])
    add_node(site, "n3", 2)
    settle(site)
    assert asked_to_stop(site) == ["2"]


class SeparationMachine(RuleBasedStateMachine):
    """Three GPUs, up to two jobs on each: jobs report, come, stop, end and refuse to stop."""

    @initialize(checkpoints=st.lists(st.sampled_from([None, 10.0]), min_size=4, max_size=4))
    def begin(self, checkpoints: list[float | None]) -> None:
        self.site, self.count, self.checked_count = site_of(2), 0, 0
        for checkpoint_s in checkpoints:
            self.submit(checkpoint_s)
        add_node(self.site, "n2")

    def _in(self, *states: JobState) -> list[JobId]:
        return [job_id for job_id, one in self.site.engine.records() if one.state in states]

    @precondition(lambda self: len(self._in(*JobState)) < 8)
    @rule(checkpoint_s=st.sampled_from([None, 10.0]))
    def submit(self, checkpoint_s: float | None) -> None:
        self.count += 1
        self.site.run(asks(str(self.count), checkpoint_s=checkpoint_s))
        self.check()

    @precondition(lambda self: self._in(JobState.RUNNING))
    @rule(data=st.data(), speed_frac=st.sampled_from([0.1, 0.3, 0.9]))
    def report(self, data: st.DataObject, speed_frac: float) -> None:
        report(self.site, data.draw(st.sampled_from(self._in(JobState.RUNNING))), speed_frac)
        self.check()

    @precondition(lambda self: self._in(JobState.RUNNING))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self.site.end(data.draw(st.sampled_from(self._in(JobState.RUNNING))))
        self.site.start()
        self.check()

    @precondition(lambda self: self._in(JobState.STOPPING))
    @rule(data=st.data(), does_stop=st.booleans())
    def answer_stop(self, data: st.DataObject, *, does_stop: bool) -> None:
        job_id = data.draw(st.sampled_from(self._in(JobState.STOPPING)))
        self.site.stop(job_id) if does_stop else self.site.refuse_stop(job_id)
        self.site.start()
        self.check()

    @rule(seconds=st.sampled_from([10.0, 400.0, 4_000.0]))
    def wait(self, seconds: float) -> None:
        self.site.advance(self.site.now_s + seconds)
        self.check()

    def check(self) -> None:
        """Never three jobs on a GPU, and no job is stopped that may not be."""
        engine = self.site.engine
        engine.check_invariants()
        seats = engine.cluster.seats
        assert seats is not None
        assert all(
            len(seats.holders(node, gpu)) <= 2
            for job_id in self._in(JobState.PLACING, JobState.RUNNING, JobState.STOPPING)
            for node, gpu, _ in seats.gpu_seats(job_id)
        )
        new, self.checked_count = self.site.actions[self.checked_count :], len(self.site.actions)
        for action in new:
            if isinstance(action, Preempt):
                record = engine.record(action.job_id)
                assert record.spec.checkpoint_s is not None
                assert record.stop_count < MOST_STOPS
                assert seats.partners(action.job_id)
        stops = [one for one in self.site.actions if isinstance(one, Preempt)]
        hours = self.site.now_s // 3_600.0 + 1
        assert len(stops) <= SEPARATION.budget_per_hour * hours


SeparationMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
TestSeparation = SeparationMachine.TestCase


def overfull_pair(site: EngineHarness, *, checkpoint_s: float | None = 60.0) -> None:
    """Have two jobs share the GPU of 40 GiB, of which one outgrows the GiB that it stated."""
    site.run(asks("1", checkpoint_s=checkpoint_s), asks("2"))
    site.feed(MemorySeen(at_s=site.now_s, job_id=JobId("1"), used_bytes=40 * GIB))


def test_a_job_that_outgrew_its_memory_leaves_at_once_if_that_may_fail_the_other() -> None:
    site = site_of()
    overfull_pair(site)
    assert asked_to_stop(site) == ["1"]
    assert site.reason("1") == (
        "leaves a shared GPU: job 1 was seen to use 40 GiB of a GPU, more than it counted with,"
        " and job 2 needs 1 of 40"
    )
    site.stop("1")
    assert site.state("1") is JobState.WAITING  # beside job 2 there is no place for it
    site.engine.check_invariants()


def test_a_job_that_kept_to_its_memory_is_not_stopped_for_the_other_one() -> None:
    site = site_of()
    overfull_pair(site, checkpoint_s=None)
    settle(site)
    assert not asked_to_stop(site)


def test_a_job_that_outgrew_its_memory_stays_where_both_fit_or_the_other_has_ended() -> None:
    site = site_of()
    site.run(asks("1"), asks("2"))
    site.feed(MemorySeen(at_s=site.now_s, job_id=JobId("1"), used_bytes=39 * GIB))
    assert not asked_to_stop(site)
    site.end("2")
    site.feed(MemorySeen(at_s=site.now_s, job_id=JobId("1"), used_bytes=40 * GIB))
    assert not asked_to_stop(site)


def test_separation_off_nothing_leaves_for_want_of_memory() -> None:
    site = site_of(separation=None)
    overfull_pair(site)
    assert not asked_to_stop(site)
