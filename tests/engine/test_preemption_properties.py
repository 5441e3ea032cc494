"""Random events against an engine with preemption, checked against a model of allocations."""

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from roost_engine.domain.actions import Action, Place, Preempt, ReleaseToSlurm, Wait
from roost_engine.domain.events import JobWithdrawn, NodeLost, NodeSeen, Tick
from roost_engine.domain.model import JobId, JobSpec, NodeShare
from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobState, shares_of
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.heuristics import NoPreemption
from roost_engine.policies.preemption_protocols import (
    MovingPreemption,
    PreemptPolicy,
)
from roost_engine.testing.builders import EngineHarness, job, node, shape
from roost_engine.testing.fakes import FakeMoving, FakePreemption

NODES = {name: node(name, 4, cpu_count=8, rack="r") for name in "abc"}
sizes = st.sampled_from([(1, 1), (1, 1), (2, 1), (3, 1), (4, 1), (4, 2), (4, 3), (2, 2)])


class PreemptionMachine(RuleBasedStateMachine):
    """Jobs come in any order of priority; Slurm stops a requested victim, refuses, or it ends."""

    preemption: PreemptPolicy = NoPreemption()

    @initialize()
    def begin(self) -> None:
        config = EngineConfig(patience_s=60.0, stop_timeout_s=40.0, start_timeout_s=20.0)
        self.harness = EngineHarness(
            NODES.values(), config=config, policies=Policies(preemption=self.preemption)
        )
        self.jobs: dict[str, JobSpec] = {}
        self.held: dict[str, tuple[NodeShare, ...]] = {}
        self.planned: dict[str, tuple[NodeShare, ...]] = {}
        self.count = 0
        self.is_slow = False

    # -- events ----------------------------------------------------------------------------

    @rule(size=sizes, priority=st.integers(0, 3), cpus=st.sampled_from([1, 1, 5]))
    def submit(self, size: tuple[int, int], priority: int, cpus: int) -> None:
        self.count += 1
        spec = self.describe(str(self.count), *size, priority)
        self.jobs[spec.job_id] = spec
        self.check(self.harness.queue(spec))

    @invariant()
    def slurm_starts_what_was_placed(self) -> None:
        while not self.is_slow and (placing := self.in_state(JobState.PLACING)):
            for job_id in placing:
                self.check(self.harness.start_elsewhere(job_id, *self.held[job_id]))

    @rule(is_slow=st.sampled_from([False, False, True]))
    def slurm_becomes_slow_or_quick(self, is_slow: bool) -> None:
        self.is_slow = is_slow

    @precondition(lambda self: self.in_state(JobState.STOPPING))
    @rule(data=st.data(), outcome=st.sampled_from(["stop", "stop", "stop", "refuse", "end"]))
    def slurm_answers_a_stop(self, data: st.DataObject, outcome: str) -> None:
        job_id = data.draw(st.sampled_from(self.in_state(JobState.STOPPING)))
        match outcome:
            case "stop":
                del self.held[job_id]
                self.check(self.harness.stop(job_id))
            case "refuse":
                self.check(self.harness.refuse_stop(job_id))
            case "end":
                self.end(job_id)

    @precondition(lambda self: self.in_state(JobState.RUNNING))
    @rule(data=st.data())
    def a_job_ends(self, data: st.DataObject) -> None:
        self.end(data.draw(st.sampled_from(self.in_state(JobState.RUNNING))))

    @precondition(lambda self: self.in_state(JobState.CLEARING))
    @rule(data=st.data(), is_gone=st.booleans())
    def a_clearing_job_leaves(self, data: st.DataObject, is_gone: bool) -> None:
        job_id = data.draw(st.sampled_from(self.in_state(JobState.CLEARING)))
        if is_gone:
            self.end(job_id)
            return
        del self.jobs[job_id]
        gone = JobWithdrawn(at_s=self.harness.now_s, job_id=JobId(job_id), reason="held")
        self.check(self.harness.feed(gone))

    @rule(is_lost=st.booleans())
    def a_node_is_lost_or_back(self, is_lost: bool) -> None:
        at_s, spec = self.harness.now_s, NODES["c"]
        event = NodeLost(at_s=at_s, name=spec.name) if is_lost else NodeSeen(at_s=at_s, node=spec)
        self.check(self.harness.feed(event))

    @rule(by_s=st.sampled_from([1.0, 15.0, 45.0, 400.0]))
    def time_passes(self, by_s: float) -> None:
        self.pass_time(by_s)

    # -- invariants ------------------------------------------------------------------------

    @invariant()
    def state_is_consistent(self) -> None:
        self.harness.engine.check_invariants()

    @invariant()
    def no_job_is_lost(self) -> None:
        running = {JobState.RUNNING, JobState.STOPPING}
        for job_id in self.jobs:
            state = self.harness.state(job_id)
            assert state not in (JobState.ENDED, JobState.RELEASED)
            assert (job_id in self.held) == (state in running | {JobState.PLACING})

    @invariant()
    def a_victim_stops_for_one_job_only(self) -> None:
        awaited: list[str] = []
        for job_id in self.in_state(JobState.CLEARING):
            awaited += self.harness.engine.record(JobId(job_id)).awaited
        assert len(awaited) == len(set(awaited))
        assert set(awaited) <= set(self.in_state(JobState.STOPPING))

    def teardown(self) -> None:
        """Check that every job has run once Slurm carries out each request and jobs end."""
        if not hasattr(self, "harness"):
            return
        for spec in NODES.values():
            self.check(self.harness.feed(NodeSeen(at_s=self.harness.now_s, node=spec)))
        self.is_slow = False
        for _ in range(2 * len(self.jobs) + 2):
            self.pass_time(400.0)
            self.slurm_starts_what_was_placed()
            for job_id in self.in_state(JobState.RUNNING, JobState.STOPPING):
                self.end(job_id)
            self.slurm_starts_what_was_placed()
        assert not self.jobs

    # -- the model -------------------------------------------------------------------------

    def describe(self, job_id: str, gpus: int, nodes: int, priority: int) -> JobSpec:
        return job(job_id, gpus=gpus, nodes=nodes, priority=priority)

    def in_state(self, *states: JobState) -> list[str]:
        records = self.harness.engine.known_jobs()
        return [str(job_id) for job_id, record in records if record.state in states]

    def pass_time(self, by_s: float) -> None:
        """Check the actions tick by tick, since a step may drop the plans of an earlier one."""
        to_s = self.harness.now_s + by_s
        while (wake_s := self.harness.wake_at_s) is not None and wake_s <= to_s:
            self.check(self.harness.feed(Tick(at_s=max(wake_s, self.harness.now_s))))
        self.harness.now_s = to_s

    def end(self, job_id: str) -> None:
        self.held.pop(job_id, None)
        self.jobs.pop(job_id, None)
        self.check(self.harness.end(job_id))

    def check(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Place():
                    self.check_place(action)
                case Wait() | ReleaseToSlurm():
                    self.held.pop(action.job_id, None)  # Slurm did not start it in time
                    assert not isinstance(action, ReleaseToSlurm) or self.jobs.pop(action.job_id)
                case Preempt():
                    self.check_preemption(action)
        self.planned = {
            job_id: shares_of(self.harness.placement(job_id))
            for job_id in self.in_state(JobState.CLEARING)
        }

    def check_place(self, action: Place) -> None:
        """Check that the GPUs are free, planned for no other job, and as planned for this one."""
        shares = shares_of(action.placement)
        assert shares == self.planned.pop(action.job_id, shares), (
            f"{action.job_id} was promised something else"
        )
        wanted = gpus_of(shares)
        for other, held in self.held.items():
            assert not wanted & gpus_of(held), f"{action.job_id} got what {other} holds"
        for other in self.in_state(JobState.CLEARING):
            promised = self.planned.get(other, ())
            assert not wanted & gpus_of(promised), f"{action.job_id} got what {other} waits for"
        self.held[action.job_id] = shares

    def check_preemption(self, action: Preempt) -> None:
        assert action.job_id in self.held
        if action.for_job is None:
            assert self.preemption.renews_leases or isinstance(self.preemption, MovingPreemption)
        else:
            victim, job = self.jobs[action.job_id], self.jobs[action.for_job]
            assert victim.priority < job.priority


def gpus_of(shares: Sequence[NodeShare]) -> set[tuple[str, int]]:
    return {(share.node, gpu) for share in shares for gpu in share.gpu_indices}


class DisplacingMachine(PreemptionMachine):
    """Jobs of higher priority displace jobs of lower priority."""

    preemption = FakePreemption(lease_s=2.0, review_every_s=20.0)


class RebiddingMachine(PreemptionMachine):
    """Every running job is stopped at the end of its lease."""

    preemption = FakePreemption(lease_s=40.0, renews_leases=True)


class MovingMachine(PreemptionMachine):
    """Jobs migrate to closer GPUs, and jobs of higher priority displace others."""

    preemption = FakeMoving(lease_s=2.0, review_every_s=20.0)

    def describe(self, job_id: str, gpus: int, nodes: int, priority: int) -> JobSpec:
        shapes = [shape(gpus, nodes)]
        if gpus % 2 == 0:
            shapes.append(shape(gpus // 2, 2 * nodes))
        return job(job_id, *shapes, priority=priority)


TestDisplacingMachine = DisplacingMachine.TestCase
TestRebiddingMachine = RebiddingMachine.TestCase
TestMovingMachine = MovingMachine.TestCase
TestDisplacingMachine.settings = TestRebiddingMachine.settings = TestMovingMachine.settings = (
    settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
)
