from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost_engine.agents.team import BORROWS, RESERVED_OR_ELSEWHERE, AgentCandidates, Team
from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import EVERY_NODE
from roost_engine.domain.events import JobEnded, JobQueued, JobStarted, NodeLost, NodeSeen, Tick
from roost_engine.domain.model import JobId, JobSpec, NodeName, Placement
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import shares_of
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.heuristics import ShapeByShape
from roost_engine.testing.builders import job, node, placed, share

RACKS, PER_RACK = 4, 2  # nodes of 8 GPUs


def cluster_of(racks: int = RACKS) -> Cluster:
    cluster = Cluster()
    for rack in range(racks):
        for number in range(PER_RACK):
            cluster.apply_node(node(f"n{rack}-{number}", 8, rack=f"r{rack}", cpu_count=64))
    return cluster


def engine_of(
    agents: int, racks: int = RACKS, patience_s: float = 600.0, *, forwards: bool = True
) -> Engine:
    config = EngineConfig(agents=agents, patience_s=patience_s, forwards=forwards)
    engine = Engine(config, Policies())
    for rack in range(racks):
        for number in range(PER_RACK):
            spec = node(f"n{rack}-{number}", 8, rack=f"r{rack}", cpu_count=64)
            engine.step(NodeSeen(at_s=0.0, node=spec))
    return engine


def run(engine: Engine, spec: JobSpec, at_s: float = 0.0) -> dict[str, tuple[NodeName, ...]]:
    """Queue a job and start everything that is placed; the nodes of each."""
    found = placed(engine.step(JobQueued(at_s=at_s, job=spec)))
    for job_id, placement in found.items():
        engine.step(JobStarted(at_s=at_s, job_id=JobId(job_id), shares=shares_of(placement)))
    return {job_id: placement.nodes for job_id, placement in found.items()}


# -- the team ------------------------------------------------------------------------------------


def test_a_new_job_goes_where_it_could_start() -> None:
    cluster = cluster_of()
    cluster.hold(
        JobId("x"), [share(f"n{rack}-{at}", *range(8)) for rack in (0, 1) for at in (0, 1)]
    )
    team = Team(cluster, 2)
    assert team.agent_of(job("1", gpus=8)) == 1


def test_of_agents_with_capacity_the_least_burdened_gets_the_job() -> None:
    team = Team(cluster_of(), 2)
    agents = [team.note_waiting(job(str(number), gpus=8)) for number in range(4)]
    assert agents == [0, 1, 0, 1]
    team.note_left(JobId("0"))
    assert team.note_waiting(job("4", gpus=8)) == 0


def test_a_job_larger_than_any_part_borrows() -> None:
    team = Team(cluster_of(), 4)
    assert team.agent_of(job("1", gpus=8, nodes=2)) >= 0
    assert team.agent_of(job("2", gpus=8, nodes=3)) == BORROWS


def test_required_nodes_of_several_parts_make_a_job_borrow() -> None:
    team = Team(cluster_of(), 4)
    assert team.agent_of(job("1", nodes=2, required=["n0-0", "n3-0"])) == BORROWS
    assert team.agent_of(job("2", required=["n3-0"])) == 3


def test_a_job_is_forwarded_once_and_then_borrows() -> None:
    cluster = cluster_of()
    team, spec = Team(cluster, 2), job("1", gpus=8)
    assert team.note_waiting(spec) == 0
    assert team.forwards([spec]) == [spec]
    assert team.agent_of(spec) == 1
    assert team.forwards([spec]) == [spec]
    assert team.agent_of(spec) == BORROWS
    assert team.forwards([spec]) == []
    assert team.forwarded_count == 1


def test_a_job_that_only_several_agents_could_start_together_borrows() -> None:
    cluster = cluster_of()
    team, spec = Team(cluster, 2), job("1", gpus=8, nodes=4)
    for number, rack in enumerate((0, 2)):  # three idle nodes are left on either side
        cluster.hold(JobId(f"x{number}"), [share(f"n{rack}-0", 0)])
    team.note_waiting(spec)
    assert team.forwards([spec]) == [spec]
    assert team.agent_of(spec) == BORROWS


def test_a_job_that_no_other_could_start_stays() -> None:
    cluster = cluster_of()
    team, spec = Team(cluster, 2), job("1", gpus=8)
    team.note_waiting(spec)
    cluster.hold(JobId("x"), [share(f"n{rack}-{at}", 0) for rack in (2, 3) for at in (0, 1)])
    assert team.forwards([spec]) == []


def test_jobs_on_their_way_are_counted() -> None:
    cluster = cluster_of()
    cluster.hold(JobId("x"), [share("n2-0", 0), share("n3-0", 0), share("n3-1", 0)])
    team = Team(cluster, 2)
    specs = [job(str(number), gpus=8, required=()) for number in range(3)]
    for spec in specs:
        team._agent_of[spec.job_id] = 0
    assert [spec.job_id for spec in team.forwards(specs)] == ["0"]  # one idle node is left there


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 3)), min_size=1, max_size=12),
    held=st.lists(st.integers(0, 7), max_size=6, unique=True),
    order=st.permutations(range(4)),
)
def test_the_order_of_visits_makes_no_difference(
    sizes: list[tuple[int, int]], held: list[int], order: Sequence[int]
) -> None:
    moves = []
    for visits in (range(4), order):
        cluster = cluster_of()
        for at in held:
            cluster.hold(JobId(f"x{at}"), [share(f"n{at // 2}-{at % 2}", *range(6))])
        team = Team(cluster, 4)
        team.visits = visits
        specs = [job(str(n), gpus=gpus, nodes=nodes) for n, (gpus, nodes) in enumerate(sizes)]
        for spec in specs:
            team.note_waiting(spec)
        team.forwards(specs)
        moves.append([team.agent_of(spec) for spec in specs])
    assert moves[0] == moves[1]


# -- in the engine -------------------------------------------------------------------------------


def test_an_agent_offers_its_own_nodes_and_says_so() -> None:
    cluster = cluster_of()
    team = Team(cluster, 2)
    spec = job("1", gpus=8)
    mine = AgentCandidates(ShapeByShape(), team).propose(cluster, spec, 0, 0.0)
    names = {mine.placement(at).nodes[0][:2] for at in range(len(mine))}
    assert names == {"n0", "n1"}
    assert dict(mine.exclusions) == {RESERVED_OR_ELSEWHERE: 4}


def test_a_full_agent_forwards_and_the_job_starts_elsewhere() -> None:
    engine = engine_of(2)
    full = tuple(share(f"n0-{at}", *range(8)) for at in (0, 1))
    spec = job("1", gpus=8, nodes=1)
    for number in range(8):
        started = run(engine, job(f"1{number}", gpus=8))
        assert len(started) == 1, full
    assert run(engine, spec) == {}
    ended = engine.step(JobEnded(at_s=1.0, job_id=JobId("17")))
    assert "1" in placed(ended)
    assert engine.forwarded_count <= 1
    engine.check_invariants()


@pytest.mark.parametrize("forwards", [True, False])
def test_a_job_of_several_nodes_starts_on_those_that_two_agents_have_left(forwards: bool) -> None:
    engine = engine_of(2, forwards=forwards)
    for rack, count in ((0, 2), (1, 1), (2, 2), (3, 1)):  # a node is left on either side
        for at in range(count):
            shares = (share(f"n{rack}-{at}", *range(8)),)
            engine.step(JobStarted(at_s=0.0, job_id=JobId(f"x{rack}{at}"), shares=shares))
    spec = job("1", gpus=8, nodes=2)
    engine.step(JobQueued(at_s=0.0, job=spec))
    found = placed(engine.step(Tick(at_s=1.0)))
    assert (list(found), engine.nodes_for(spec) == EVERY_NODE) == (
        (["1"], True) if forwards else ([], False)
    )
    engine.check_invariants()


@pytest.mark.parametrize("forwards", [True, False])
def test_without_forwarding_a_job_waits_for_its_own_agent(forwards: bool) -> None:
    engine = engine_of(2, forwards=forwards)
    nodes = {number: run(engine, job(str(number), gpus=8)) for number in range(8)}
    spec = job("new", gpus=8, nodes=1)
    assert run(engine, spec) == {}
    own, named = engine.nodes_for(spec), engine.cluster.nodes_named
    other = next(str(at) for at, one in nodes.items() if not named(one[str(at)]) & own)
    ended = placed(engine.step(JobEnded(at_s=1.0, job_id=JobId(other))))
    assert (list(ended), engine.forwarded_count) == (["new"], 1) if forwards else ([], 0)
    engine.check_invariants()


def test_a_job_whose_agents_nodes_are_down_gets_those_of_others_reserved() -> None:
    engine = engine_of(2, patience_s=5.0)
    for number in range(8):
        run(engine, job(f"x{number}", gpus=8))
    engine.step(JobQueued(at_s=0.0, job=job("wide", gpus=8, nodes=4)))
    own = engine.nodes_for(job("wide", gpus=8, nodes=4))
    holders = {True: list[str](), False: list[str]()}
    for number in range(8):
        (taken,) = engine.cluster.shares(JobId(f"x{number}"))
        index = engine.cluster.index_of[taken.node]
        holders[bool(own >> index & 1)].append(f"x{number}")
        if own >> index & 1:
            down = node(taken.node, 8, rack=taken.node[:2].replace("n", "r"), usable=False)
            engine.step(NodeSeen(at_s=1.0, node=down))
    for number in range(4):
        engine.step(JobQueued(at_s=2.0, job=job(f"s{number}", gpus=8, submit_s=2.0)))
    found = dict[str, Placement]()
    for number, name in enumerate(holders[False]):
        found |= placed(engine.step(JobEnded(at_s=10.0 + number, job_id=JobId(name))))
    found |= placed(engine.step(Tick(at_s=20.0)))
    assert list(found) == ["wide"]
    engine.check_invariants()


def test_a_large_job_takes_its_parts_at_once_from_several() -> None:
    engine = engine_of(4)
    started = run(engine, job("1", gpus=8, nodes=6))
    assert len(started["1"]) == 6
    assert run(engine, job("2", gpus=8, nodes=6)) == {}
    assert run(engine, job("3", gpus=8, nodes=1)) != {}  # the second holds nothing meanwhile


def test_nodes_that_leave_give_their_jobs_to_other_agents() -> None:
    engine = engine_of(2)
    for at in (0, 1):  # all of the first agent's nodes are held
        for rack in (0, 1, 2, 3):
            shares = (share(f"n{rack}-{at}", *range(8)),)
            engine.step(JobStarted(at_s=0.0, job_id=JobId(f"x{rack}{at}"), shares=shares))
    run(engine, job("1", gpus=8))
    for rack in (0, 1):
        for at in (0, 1):
            engine.step(NodeLost(at_s=1.0, name=NodeName(f"n{rack}-{at}")))
    assert "1" in placed(engine.step(JobEnded(at_s=2.0, job_id=JobId("x20"))))


def test_a_job_that_came_before_its_nodes_gets_an_agent_with_them() -> None:
    engine = Engine(EngineConfig(agents=2), Policies())
    engine.step(JobQueued(at_s=0.0, job=job("1", gpus=8)))
    found = dict[str, Placement]()
    for rack in ("a", "b"):
        found |= placed(engine.step(NodeSeen(at_s=1.0, node=node(f"n{rack}", 8, rack=rack))))
    assert set(found) == {"1"}


def test_one_agent_has_no_team() -> None:
    engine = engine_of(1)
    assert engine.forwarded_count == 0
    assert not isinstance(engine.policies.candidates, AgentCandidates)


JOBS = st.lists(
    st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 1, 1, 2, 3, 6, 8])),
    min_size=1,
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(jobs=JOBS, agents=st.integers(2, 5), order=st.randoms(use_true_random=False))
def test_no_job_starves_and_no_two_lock_each_other(
    jobs: list[tuple[int, int]], agents: int, order: object
) -> None:
    """As long as jobs end, each one starts, however large; GPUs are never held twice."""
    engine, running = engine_of(agents, patience_s=5.0), list[JobId]()
    started = set[str]()

    def start(actions: object, at_s: float) -> None:
        for job_id, placement in placed(actions).items():  # type: ignore[arg-type]
            started.add(job_id)
            running.append(JobId(job_id))
            shares = shares_of(placement)
            start(engine.step(JobStarted(at_s=at_s, job_id=JobId(job_id), shares=shares)), at_s)

    for number, (gpus, nodes) in enumerate(jobs):
        start(engine.step(JobQueued(at_s=0.0, job=job(str(number), gpus=gpus, nodes=nodes))), 0.0)
        engine.check_invariants()
    at_s = 10.0
    while running:
        at_s += 1.0
        ending = running.pop(order.randrange(len(running)))  # type: ignore[attr-defined]
        start(engine.step(JobEnded(at_s=at_s, job_id=ending)), at_s)
        engine.check_invariants()
    assert started == {str(number) for number in range(len(jobs))}


@settings(max_examples=30, deadline=None)
@given(jobs=JOBS, order=st.permutations(range(4)))
def test_decisions_are_the_same_in_whatever_order_agents_are_visited(
    jobs: list[tuple[int, int]], order: Sequence[int]
) -> None:
    histories = []
    for visits in (range(4), order):
        engine, history = engine_of(4, patience_s=5.0), list[object]()
        assert engine._team is not None
        engine._team.visits = visits
        for number, (gpus, nodes) in enumerate(jobs):
            spec = job(str(number), gpus=gpus, nodes=nodes)
            history.append(run(engine, spec, float(number)))
        for number in range(len(jobs)):
            at_s = 100.0 + number
            found = placed(engine.step(JobEnded(at_s=at_s, job_id=JobId(str(number)))))
            history.append({job_id: place.nodes for job_id, place in found.items()})
            for job_id, place in found.items():
                engine.step(JobStarted(at_s=at_s, job_id=JobId(job_id), shares=shares_of(place)))
        histories.append((history, engine.forwarded_count))
    assert histories[0] == histories[1]


@settings(max_examples=15, deadline=None)
@given(count=st.integers(20, 40), agents=st.integers(2, 4), order=st.randoms(use_true_random=False))
def test_jobs_that_ask_for_the_same_all_start_with_their_agents(
    count: int, agents: int, order: object
) -> None:
    """The first job of a group may be with another agent by now, or gone."""
    engine, running, started = engine_of(agents), list[JobId](), set[str]()

    def start(actions: object) -> None:
        for job_id, placement in placed(actions).items():  # type: ignore[arg-type]
            started.add(job_id)
            running.append(JobId(job_id))
            shares = shares_of(placement)
            start(engine.step(JobStarted(at_s=1.0, job_id=JobId(job_id), shares=shares)))

    for number in range(count):
        start(engine.step(JobQueued(at_s=1.0, job=job(str(number), gpus=8))))
    while running:
        ending = running.pop(order.randrange(len(running)))  # type: ignore[attr-defined]
        start(engine.step(JobEnded(at_s=1.0, job_id=ending)))
        engine.check_invariants()
    assert len(started) == count


def test_a_group_is_shown_by_a_job_that_is_still_in_it() -> None:
    engine = engine_of(2)
    for number in range(8):
        run(engine, job(f"on{number}", gpus=8))
    for number in range(4):
        run(engine, job(str(number), gpus=8))
    engine.step(JobEnded(at_s=1.0, job_id=JobId("0")))
    queue = engine._table.queue
    for group in queue._groups.values():
        assert group.sample.job_id in group.since_s
