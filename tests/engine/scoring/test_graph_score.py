from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.scoring.graph_cluster import cluster_of, occupy, question_of, talks

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.errors import PolicyError
from roost_engine.domain.events import JobQueued, NodeSeen
from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_engine.domain.topology import LinkMatrix
from roost_engine.engine import Engine, EngineConfig
from roost_engine.placement.wide_search import WideSearch
from roost_engine.plugins.plugins import Plugins, Policies
from roost_engine.plugins.stacks import PlacementKind
from roost_engine.policies.protocols import ClusterScore
from roost_engine.prediction.speed.speed_table import ModelSpeeds
from roost_engine.prediction.speed.tier_speeds import TierSpeeds
from roost_engine.scoring.graph_columns import CANDIDATE_COLUMNS, CANDIDATES
from roost_engine.scoring.graph_score import ROUNDED_TO, GraphScore
from roost_engine.testing.builders import bridges, job, node, placed, share, topology
from roost_engine.testing.graph_model import DrawnGraph


def scored(seed: int = 0) -> GraphScore:
    score = GraphScore(DrawnGraph(seed))
    score.expect(talks)
    return score


def by_place(cluster: Cluster, gpus: int, nodes: int) -> dict[tuple[object, ...], float]:
    """Score the candidates; the score of each by its nodes' names and GPUs."""
    question = question_of(cluster, gpus, nodes)
    scores = scored().score_within(question)
    found = dict[tuple[object, ...], float]()
    for position, value in enumerate(scores.tolist()):
        place = question.candidates.placement(position)
        found[place.nodes, place.gpu_indices] = value
    return found


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1 << 16),
    order=st.permutations(range(7)),
    wanted=st.sampled_from([(1, 1), (2, 1), (4, 1), (2, 2)]),
)
def test_scores_follow_nodes_and_racks_into_any_order(
    seed: int, order: list[int], wanted: tuple[int, int]
) -> None:
    """The same candidates score the same, in whatever order nodes and racks came."""
    answers = []
    for introduced in (None, order):
        cluster = cluster_of([[0, 2], [1, 2, 2], [0, 1]], introduced)
        occupy(cluster, np.random.default_rng(seed), 4)
        answers.append(by_place(cluster, *wanted))
    shared = answers[0].keys() & answers[1].keys()
    assert shared
    for place in shared:
        assert answers[0][place] == pytest.approx(answers[1][place], abs=1.5 * ROUNDED_TO)


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(8)), gpus=st.integers(1, 3))
def test_scores_follow_the_gpus_of_a_node_into_any_order(order: list[int], gpus: int) -> None:
    """GPU i of one node is GPU order[i] of the other, with its links and its job."""
    links = bridges()
    rows = tuple(tuple(links.links[order[a]][order[b]] for b in range(8)) for a in range(8))
    where = {gpu: at for at, gpu in enumerate(order)}
    sets: list[dict[tuple[int, ...], float]] = []
    for matrix, at in ((links, {gpu: gpu for gpu in range(8)}), (LinkMatrix(rows), where)):
        cluster = Cluster()
        cluster.apply_node(node("a", 8, cpu_count=64))
        cluster.apply_topology(NodeName("a"), matrix, ())
        held = tuple(sorted(at[gpu] for gpu in (0, 3, 4)))
        cluster.hold(JobId("1"), [NodeShare(NodeName("a"), held, 1, 0)])
        back = {position: gpu for gpu, position in at.items()}
        sets.append(
            {
                tuple(sorted(back[one] for one in indices)): value  # type: ignore[attr-defined]
                for (_, indices), value in by_place(cluster, gpus, 1).items()
            }
        )
    for chosen in sets[0].keys() & sets[1].keys():
        assert sets[0][chosen] == pytest.approx(sets[1][chosen], abs=1.5 * ROUNDED_TO)


def test_it_is_asked_within_the_cluster_and_named_in_the_decision() -> None:
    score = scored()
    assert isinstance(score, ClusterScore)
    engine = Engine(EngineConfig(), Policies(score=score, candidates=WideSearch()))
    for name in ("a", "b"):
        engine.step(NodeSeen(at_s=0.0, node=node(name, 8, rack=f"r{name}")))
        engine.step(topology(name, bridges()))
    actions = engine.step(JobQueued(at_s=1.0, job=job("1", gpus=2)))
    assert placed(actions).keys() == {"1"}
    assert engine.fallback_count == 0
    assert engine.record(JobId("1")).decision.get().policy == "drawn"  # type: ignore[union-attr]


def test_the_heuristic_answers_when_the_model_cannot() -> None:
    model = DrawnGraph()
    model.fails = PolicyError("too slow")
    engine = Engine(EngineConfig(), Policies(score=GraphScore(model)))
    engine.step(NodeSeen(at_s=0.0, node=node("a", 8)))
    assert placed(engine.step(JobQueued(at_s=1.0, job=job("1", gpus=2)))).keys() == {"1"}
    decision = engine.record(JobId("1")).decision
    assert decision is not None
    assert (decision.get().policy, decision.get().fallback_reason) == ("heuristic", "too slow")
    model.fails = None
    engine.step(JobQueued(at_s=2.0, job=job("2", gpus=2)))
    assert engine.fallback_count == 1


def test_it_cannot_answer_from_the_columns_alone() -> None:
    with pytest.raises(PolicyError, match="only within their cluster"):
        scored().score(np.zeros((1, 18), dtype=np.float32))


def test_plugins_tell_it_how_much_jobs_communicate() -> None:
    model = DrawnGraph()
    speeds = (ModelSpeeds(model="bert", gpu_count=2, speeds=TierSpeeds(0.9, 0.5, 0.2)),)
    plugins = Plugins(placement=PlacementKind.WIDE, speeds=speeds)
    engine = Engine(EngineConfig(), plugins.policies(GraphScore(model)))
    engine.step(NodeSeen(at_s=0.0, node=node("a", 8)))
    engine.step(JobQueued(at_s=1.0, job=replace(job("1", gpus=2), model="bert")))
    row = model.calls[-1][CANDIDATES][0]
    names = ("graph_local_frac", "graph_rack_frac", "graph_across_frac")
    got = [float(row[CANDIDATE_COLUMNS.index(name)]) for name in names]
    assert got == pytest.approx([0.1, 0.5, 0.8])


def test_an_engine_made_again_is_read_from_scratch() -> None:
    score = scored()
    for number in range(2):
        cluster = cluster_of([[0, 2], [2]])
        cluster.hold(JobId("1"), [share("n0-1", 0, 1, 2, number)][:1])
        question = question_of(cluster)
        assert np.array_equal(score.score_within(question), scored().score_within(question))
