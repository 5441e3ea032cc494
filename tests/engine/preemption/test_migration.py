"""Migration of running jobs to closer GPUs: when, where to, and what may fail on the way."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.engine.conftest import HarnessFactory

from roost_engine.domain.events import (
    ForeignMemorySeen,
    JobQueued,
    JobWithdrawn,
    NodeLost,
    NodeSeen,
)
from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeSpec
from roost_engine.engine import EngineConfig, Passing
from roost_engine.job_record import JobState
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.preemption_protocols import (
    MovingPreemption,
    PreemptPolicy,
)
from roost_engine.policies.protocols import (
    Allow,
    Defer,
)
from roost_engine.testing.builders import (
    EngineHarness,
    bridges,
    job,
    node,
    placed,
    preempted,
    shape,
)
from roost_engine.testing.fakes import FakeMoving, FakePreemption, FakeScore, ScriptedGate

RUNNING, STOPPING, WAITING = JobState.RUNNING, JobState.STOPPING, JobState.WAITING
SPREAD = job("9", shape(8), shape(4, 2))  # fits on one node, else on two


@pytest.fixture
def make(make_harness: HarnessFactory) -> HarnessFactory:
    """Make engines that migrate every job for which there are closer GPUs."""

    def with_moves(
        nodes: Sequence[NodeSpec] = (node("a"), node("b")),
        policy: PreemptPolicy | None = None,
        policies: Policies | None = None,
        **options: object,
    ) -> EngineHarness:
        policies = replace(policies or Policies(), preemption=policy or FakeMoving())
        return make_harness(nodes, bridges(), policies=policies, **options)

    return with_moves


def spread(harness: EngineHarness) -> None:
    """Start job 9 on four GPUs of each node, beside job 1 on a and job 2 on b."""
    harness.run(job("1", gpus=4, required=["a"]), job("2", gpus=4, required=["b"]))
    harness.run(SPREAD)
    assert harness.placement("9").nodes == ("a", "b")


def holds(harness: EngineHarness, job_id: str) -> dict[str, int]:
    """Return the number of GPUs that a job holds on each node."""
    shares = harness.engine.cluster.shares(JobId(job_id))
    return {str(share.node): len(share.gpu_indices) for share in shares}


def test_a_job_on_two_nodes_migrates_to_one_when_it_fits_there(make: HarnessFactory) -> None:
    harness = make()
    spread(harness)
    # Job 1 releases four GPUs of a; the other four there are those of job 9 itself.
    assert preempted(harness.end("1")) == {"9": None}
    assert (harness.state("9"), harness.reason("9")) == (STOPPING, "moves, to be on one node")
    assert list(placed(harness.stop("9"))) == ["9"]
    assert harness.gpus("9") == tuple(f"a:{gpu}" for gpu in range(8))
    harness.start()
    assert (harness.state("9"), holds(harness, "9")) == (RUNNING, {"a": 8})


def test_no_job_migrates_to_gpus_whose_memory_processes_of_no_job_use(
    make: HarnessFactory,
) -> None:
    harness = make()
    spread(harness)
    gpu = next(iter(set(range(8)) - set(harness.placement("9").gpu_indices)))
    for name in ("a", "b"):
        harness.feed(
            ForeignMemorySeen(
                at_s=harness.now_s, name=NodeName(name), gpu_index=gpu, used_bytes=1 << 34
            )
        )
    assert preempted(harness.end("1")) == {}
    harness.engine.check_invariants()


def test_the_new_gpus_are_held_for_the_job(make: HarnessFactory) -> None:
    harness = make()
    spread(harness)
    harness.end("1")
    assert holds(harness, "9") == {"a": 8, "b": 4}
    assert not placed(harness.queue(job("3", gpus=4)))
    assert sorted(placed(harness.stop("9"))) == ["3", "9"]
    assert (holds(harness, "9"), holds(harness, "3")) == ({"a": 8}, {"b": 4})


def test_a_job_migrates_to_a_closer_tier(make: HarnessFactory) -> None:
    harness = make([node("a", rack="r"), node("b", rack="s"), node("c", rack="r")])
    harness.run(job("1", gpus=8, required=["c"]), job("9", shape(8, 2)))
    assert harness.placement("9").nodes == ("a", "b")
    harness.end("1")
    assert harness.reason("9") == "moves, to be in one rack"
    harness.stop("9")
    assert harness.placement("9").nodes == ("a", "c")


def test_a_job_migrates_to_fewer_nodes_of_the_same_tier(make: HarnessFactory) -> None:
    harness = make([node(name, rack="r") for name in "abc"])
    harness.run(*(job(name, gpus=4, required=[name]) for name in "abc"))
    harness.run(job("9", shape(8, 2), shape(4, 3)))
    harness.queue(job("8", gpus=8))
    harness.feed(JobWithdrawn(at_s=harness.now_s, job_id=JobId("8"), reason="held"))
    harness.end("a")
    assert harness.state("9") is RUNNING, "12 GPUs are not 16"
    harness.end("b")
    assert harness.reason("9") == "moves, to be on 2 nodes instead of 3"


def test_a_job_on_its_closest_tier_does_not_migrate(make: HarnessFactory) -> None:
    harness = make([node(name, rack="r") for name in "abc"])
    harness.run(job("1", gpus=8), job("8", gpus=4), job("9", shape(4, 2)))
    assert not preempted(harness.end("1"))
    assert not preempted(harness.end("8"))


def test_no_job_migrates_to_gpus_that_are_as_far_apart(make: HarnessFactory) -> None:
    harness = make([node(name, 4, rack="r") for name in "abc"])
    harness.run(job("1", gpus=4, required=["a"]), SPREAD)
    assert harness.placement("9").nodes == ("b", "c")
    assert not preempted(harness.end("1"))


def test_waiting_jobs_are_offered_free_gpus_before_any_migration(make: HarnessFactory) -> None:
    harness = make()
    spread(harness)
    harness.queue(job("3", gpus=4))
    taken = harness.end("1")
    assert (list(placed(taken)), preempted(taken)) == (["3"], {})
    assert preempted(harness.end("3")) == {"9": None}


def test_a_job_migrates_to_gpus_that_no_waiting_job_can_use(make: HarnessFactory) -> None:
    harness = make()
    spread(harness)
    harness.queue(job("3", gpus=8))
    assert preempted(harness.end("1")) == {"9": None}


@pytest.mark.parametrize(("patience_s", "movers"), [(0.0, []), (60.0, ["9"])])
def test_no_job_migrates_to_a_reserved_node(
    make: HarnessFactory, patience_s: float, movers: list[str]
) -> None:
    """Job 3 waits for all of c and d. After its patience c is reserved for it until d is free."""
    harness = make([node(name) for name in "abcd"], config=EngineConfig(patience_s=patience_s))
    harness.run(*(job(name, gpus=8, required=[name], time_limit_s=100.0) for name in "cd"))
    spread(harness)
    harness.queue(job("3", gpus=8, nodes=2, required=["c", "d"]))
    assert list(preempted(harness.end("c"))) == movers


def test_without_backfill_there_is_no_migration_past_a_waiting_job(make: HarnessFactory) -> None:
    harness = make(config=EngineConfig(patience_s=0.0, passing=Passing.NOBODY))
    spread(harness)
    harness.queue(job("3", gpus=8))
    assert not preempted(harness.end("1"))


def test_no_job_migrates_before_all_waiting_jobs_were_offered_the_gpus(
    make: HarnessFactory,
) -> None:
    """Job 3 is offered one of c's eight GPUs and waits. A pass tries one job, so job 5 is next."""
    later = Defer(until_s=50.0, reason="a better place may come")
    gate = ScriptedGate(*4 * [Allow()], later, Allow())
    harness = make(
        [node(name) for name in "abc"],
        policies=Policies(gate=gate),
        config=EngineConfig(window_count=1),
    )
    harness.run(job("c", gpus=8, required=["c"]))
    spread(harness)
    harness.queue(job("3", gpus=1), job("5", gpus=8))
    assert not preempted(harness.end("c"))
    taken = harness.queue(job("6", gpus=2))
    assert (list(placed(taken)), preempted(taken)) == (["5"], {})


@pytest.mark.parametrize(("ends", "node_name"), [("c2", "c"), ("2", "b")])
def test_a_failed_migration_is_tried_again_when_a_useful_node_gains_capacity(
    make: HarnessFactory, ends: str, node_name: str
) -> None:
    """Job 9 fits on c once both jobs there end, and on b, where it holds four GPUs, once 2 ends."""
    harness = make([node(name) for name in "abc"])
    harness.run(*(job(name, gpus=4, required=["c"]) for name in ("c1", "c2")))
    spread(harness)
    assert not preempted(harness.end("c1"))
    assert preempted(harness.end(ends)) == {"9": None}
    harness.stop("9")
    assert holds(harness, "9") == {node_name: 8}


def test_a_new_node_may_be_closer_to_a_job_that_was_as_close_as_could_be(
    make: HarnessFactory,
) -> None:
    harness = make([node("a", rack="r0"), node("b", rack="r1")])
    harness.run(job("9", gpus=8, nodes=2))
    assert not preempted(harness.advance(10.0))
    assert preempted(harness.feed(NodeSeen(at_s=10.0, node=node("c", rack="r0")))) == {"9": None}


def test_a_job_within_its_lease_does_not_migrate(make: HarnessFactory) -> None:
    harness = make(policy=FakeMoving(lease_s=100.0))
    spread(harness)
    harness.now_s = 99.0
    assert not preempted(harness.end("1"))
    harness.now_s = 100.0
    assert preempted(harness.end("2")) == {"9": None}


@pytest.mark.parametrize(("favourite", "movers"), [(0, ["9"]), (-1, [])])
def test_no_migration_where_the_score_policy_prefers_gpus_that_are_no_closer(
    make: HarnessFactory, favourite: int, movers: list[str]
) -> None:
    nodes = [node("a", rack="r"), node("b", rack="s"), node("c", rack="r")]
    harness = make(nodes, policies=Policies(score=FakeScore(favourite)))
    # Job 1 releases seven GPUs of c. Then the first candidate is a and c, and the last a and b.
    harness.run(job("2", gpus=1, required=["c"]), job("1", gpus=7, required=["c"]))
    harness.run(job("9", shape(4, 2)))
    assert list(preempted(harness.end("1"))) == movers


def test_a_policy_without_migration_is_not_asked(make: HarnessFactory) -> None:
    policy = FakePreemption()
    assert not isinstance(policy, MovingPreemption)
    harness = make(policy=policy)
    spread(harness)
    assert not preempted(harness.end("1"))


# -- failures --------------------------------------------------------------------------------


def test_a_refused_stop_releases_the_new_gpus(make: HarnessFactory) -> None:
    harness = make()
    spread(harness)
    harness.end("1")
    harness.refuse_stop("9")
    assert (harness.state("9"), holds(harness, "9")) == (RUNNING, {"a": 4, "b": 4})
    assert list(placed(harness.queue(job("3", gpus=4)))) == ["3"]


def test_a_job_that_does_not_stop_in_time_keeps_running(make: HarnessFactory) -> None:
    harness = make(config=EngineConfig(stop_timeout_s=30.0))
    spread(harness)
    harness.end("1")
    harness.advance(30.0)
    assert (harness.state("9"), holds(harness, "9")) == (RUNNING, {"a": 4, "b": 4})


def test_a_job_may_end_before_it_has_migrated(make: HarnessFactory) -> None:
    harness = make()
    spread(harness)
    harness.end("1")
    assert not placed(harness.end("9"))
    assert holds(harness, "9") == {}
    assert list(placed(harness.queue(job("3", gpus=8)))) == ["3"]


def test_a_job_that_slurm_requeued_is_placed_as_planned(make: HarnessFactory) -> None:
    harness = make()
    spread(harness)
    harness.end("1")
    back = replace(SPREAD, priority=5)
    assert list(placed(harness.feed(JobQueued(at_s=harness.now_s, job=back)))) == ["9"]
    assert harness.placement("9").nodes == ("a",)


@pytest.mark.parametrize(
    ("back", "nodes"),
    [
        (job("9", gpus=4), {"b": 4}),  # its request has changed
        (replace(SPREAD, eligible_s=500.0), {}),
        (replace(SPREAD, fixed_indices=(4, 5, 6, 7)), {"a": 4, "b": 4}),  # as a pin left it
    ],
)
def test_a_job_that_requeues_with_another_request_is_queued_like_any_other(
    make: HarnessFactory, back: JobSpec, nodes: dict[str, int]
) -> None:
    harness = make()
    spread(harness)
    harness.end("1")
    harness.feed(JobQueued(at_s=harness.now_s, job=back))
    assert holds(harness, "9") == nodes


def test_a_job_whose_new_node_is_lost_waits_like_any_other(make: HarnessFactory) -> None:
    harness = make()
    spread(harness)
    harness.end("1")
    harness.feed(NodeLost(at_s=harness.now_s, name=NodeName("a")))
    assert not placed(harness.stop("9"))
    assert harness.state("9") is WAITING
    assert list(placed(harness.end("2"))) == ["9"]
    assert harness.placement("9").nodes == ("b",)


def test_a_report_of_the_present_run_does_not_release_the_new_gpus(make: HarnessFactory) -> None:
    harness = make()
    spread(harness)
    harness.end("1")
    harness.start_elsewhere("9", *harness.engine.record(JobId("9")).shares)
    assert holds(harness, "9") == {"a": 8, "b": 4}
