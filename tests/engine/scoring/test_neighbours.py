"""roost_engine.scoring.neighbours: losses beside jobs, and the neighbour that costs most."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from tests.engine.scoring.graph_cluster import cluster_of, occupy, question_of, talks

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.errors import PolicyError
from roost_engine.domain.events import JobQueued, JobStarted, NodeSeen, PairsSeen
from roost_engine.domain.job_kind import kind_of
from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeShare
from roost_engine.domain.pair_correction import PairCorrection
from roost_engine.domain.topology import Level, Link, LinkMatrix
from roost_engine.engine import Engine, EngineConfig
from roost_engine.placement.wide_search import WideSearch
from roost_engine.plugins.plugins import Plugins, Policies
from roost_engine.policies.protocols import ClusterScore, ScoreQuestion
from roost_engine.scoring.graph_jobs import Communication
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.scoring.neighbour_corrections import Corrections
from roost_engine.scoring.neighbours import PRICE, NeighbourScore
from roost_engine.testing.builders import job, load_seen, node, placed, share, topology

PCIE = LinkMatrix.uniform(8, Link(Level.SYSTEM))


class FakeInterference:
    """Costs a tenth of own communication times the neighbours'; nothing else."""

    def __init__(self) -> None:
        self.name, self.width, self.asked = "fake", 3, list[int]()
        self.fails: Exception | None = None

    def vector(self, means: Mapping[str, float]) -> np.ndarray:
        talk = max(means.get("nic", 0.0), means.get("pcie", 0.0))
        return np.array([talk, means.get("sm", 0.0), 1.0], dtype=np.float32)

    def slowdowns(
        self, own: np.ndarray, beside: np.ndarray, tier: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        if self.fails is not None:
            raise self.fails
        self.asked.append(len(own))
        mean = (own[:, 0] * beside[:, :, 0].sum(axis=1)).astype(np.float32)
        return mean, np.full(len(own), 0.05, dtype=np.float32)

    def means(self, own: np.ndarray, beside: np.ndarray, tier: np.ndarray) -> np.ndarray:
        return self.slowdowns(own, beside, tier)[0]


def scored(interference: FakeInterference | None = None) -> NeighbourScore:
    score = NeighbourScore(interference or FakeInterference())
    score.expect(talks)
    return score


def on_node(question: ScoreQuestion, scores: np.ndarray) -> dict[str, float]:
    """Return the best score of each node."""
    found = dict[str, float]()
    for at, value in enumerate(scores.tolist()):
        name = question.candidates.placement(at).nodes[0]
        found[name] = max(found.get(name, -1e9), value)
    return found


def two_nodes(first: int, second: int) -> Cluster:
    """Two PCIe nodes with a job on each, of so many GPUs; more GPUs communicate more."""
    cluster = cluster_of([[2, 2]])
    for number, gpus in enumerate((first, second)):
        name = NodeName(f"n0-{number}")
        cluster.hold(JobId(f"{number}"), [NodeShare(name, tuple(range(gpus)), 1, 0)])
    return cluster


def test_an_empty_cluster_is_scored_by_the_heuristic_alone() -> None:
    fake = FakeInterference()
    question = question_of(cluster_of([[0, 2], [1]]))
    assert isinstance(scored(), ClusterScore)
    found = scored(fake).score_within(question)
    assert found.tolist() == HeuristicScore().score(question.features).tolist()
    assert fake.asked == []


def test_losses_of_newcomer_and_joined_are_subtracted_by_the_price() -> None:
    cluster = two_nodes(4, 4)
    question = question_of(cluster, 2)
    base = on_node(question, HeuristicScore().score(question.features))
    found = on_node(question, scored().score_within(question))
    # talks(): 1/4 and 3/8 of a step in a rack, of 2 and of 4 GPUs; a quarter as exposed over PCIe
    own, other = 1 / 8, 3 / 16
    assert own > (1 / 3) / (4 + 1 / 3)
    assert other > (3 / 5) / (4 + 3 / 5)
    # The newcomer sees 4 of its 6 neighbours busy; the joined sees 2 of its 4, with twice its GPUs.
    loss = own * other * 4 / 6 + other * own * 2 / 4 * 4 / 2
    assert base["n0-0"] - found["n0-0"] == pytest.approx(PRICE * loss, abs=2e-4)


def test_a_node_whose_gpus_are_all_linked_costs_nothing() -> None:
    cluster = cluster_of([[0]])
    cluster.hold(JobId("1"), [NodeShare(NodeName("n0-0"), (0, 1, 2, 3), 1, 0)])
    question = question_of(cluster, 2)
    base = HeuristicScore().score(question.features)
    assert scored().score_within(question) == pytest.approx(base, abs=1e-5)
    assert scored().costliest(question, 0) is None


def test_one_call_answers_all_candidates_and_gangs() -> None:
    cluster = cluster_of([[0, 2], [1, 2, 2], [0, 1]])
    occupy(cluster, np.random.default_rng(3), 6)
    for gpus, nodes in ((2, 1), (2, 2)):
        fake = FakeInterference()
        question = question_of(cluster, gpus, nodes)
        found = scored(fake).score_within(question)
        assert np.isfinite(found).all()
        assert (found <= HeuristicScore().score(question.features) + 1e-4).all()
        assert len(fake.asked) == 1


def test_what_changes_on_a_node_is_seen() -> None:
    cluster, score = two_nodes(4, 4), scored()
    before = on_node(question_of(cluster), score.score_within(question_of(cluster)))
    cluster.release(JobId("0"))
    after = on_node(question_of(cluster), score.score_within(question_of(cluster)))
    question = question_of(cluster)
    plain = on_node(question, HeuristicScore().score(question.features))
    assert after["n0-0"] == pytest.approx(plain["n0-0"], abs=1e-5)
    assert after["n0-1"] == pytest.approx(before["n0-1"], abs=1e-5)


def test_reported_load_takes_the_place_of_what_is_expected() -> None:
    cluster, score = two_nodes(4, 4), scored()
    cluster.apply_loads((NodeName("n0-0"),), np.zeros((8, 4), dtype=np.float32)[None])
    question = question_of(cluster)
    plain = on_node(question, HeuristicScore().score(question.features))
    found = on_node(question, score.score_within(question))
    assert found["n0-0"] == pytest.approx(plain["n0-0"], abs=1e-5)
    assert found["n0-1"] < plain["n0-1"] - 0.01


def test_the_costliest_neighbour_is_named() -> None:
    cluster = cluster_of([[2]])
    name = NodeName("n0-0")
    cluster.hold(JobId("small"), [NodeShare(name, (0, 1), 1, 0)])
    cluster.hold(JobId("large"), [NodeShare(name, (2, 3, 4, 5), 1, 0)])
    found = scored().costliest(question_of(cluster), 0)
    assert found is not None
    assert found.job_id == "large"
    assert found.lost_frac == pytest.approx(1 - np.exp(-1 / 8 * 3 / 16 * 4 / 6), rel=1e-4)
    assert 0.4 < found.sure_frac < 0.7
    assert found.in_words.startswith("job large is expected to cost 2 % of the speed")


def test_switch_and_socket_are_levels_of_their_own() -> None:
    rows = [[None if a == b else _link(a, b) for b in range(8)] for a in range(8)]
    cluster = Cluster()
    cluster.apply_node(node("n", 8, cpu_count=64))
    cluster.apply_topology(NodeName("n"), LinkMatrix(tuple(map(tuple, rows))), ())
    for number, gpus in enumerate(((0,), (2,), (4,))):
        cluster.hold(JobId(str(number)), [NodeShare(NodeName("n"), gpus, 1, 0)])
    score, question = scored(), question_of(cluster, 1)
    score.score_within(question)
    residents = score.neighbourhood.residents(cluster, 0)
    assert score.neighbourhood.level(cluster, 0, residents, 0b10).tolist() == [0, 1, 2]


def _link(a: int, b: int) -> Link:
    if a // 2 == b // 2:
        return Link(Level.SINGLE_SWITCH)
    return Link(Level.NUMA_NODE if a // 4 == b // 4 else Level.SYSTEM)


def engine_with(interference: FakeInterference) -> Engine:
    plugins = Plugins()
    policies = plugins.policies(NeighbourScore(interference))
    engine = Engine(EngineConfig(), Policies(score=policies.score, candidates=WideSearch()))
    for name in ("a", "b"):
        engine.step(NodeSeen(at_s=0.0, node=node(name, 8, cpu_count=64)))
        engine.step(topology(name, PCIE))
    return engine


def test_a_decision_names_the_neighbour_and_the_policy() -> None:
    engine = engine_with(FakeInterference())
    for name in ("a", "b"):
        held = (share(name, 0, 1, 2, 3),)
        engine.step(JobStarted(at_s=0.5, job_id=JobId(f"on {name}"), shares=held))
        busy = np.full((8, 4), np.nan, dtype=np.float32)
        busy[:, 2] = 63e9
        engine.step(load_seen(at_s=0.6, name=NodeName(name), load=busy))
    assert placed(engine.step(JobQueued(at_s=1.0, job=job("1", gpus=2)))).keys() == {"1"}
    record = engine.record(JobId("1"))
    assert record.decision is not None
    assert record.decision.get().policy == "fake"
    assert engine.fallback_count == 0


def test_the_heuristic_answers_when_the_model_cannot() -> None:
    fake = FakeInterference()
    fake.fails = PolicyError("too slow")
    engine = engine_with(fake)
    engine.step(JobStarted(at_s=0.5, job_id=JobId("x"), shares=(share("a", 0),)))
    assert placed(engine.step(JobQueued(at_s=1.0, job=job("1", gpus=2)))).keys() == {"1"}
    assert engine.fallback_count == 1
    with pytest.raises(PolicyError, match="within their cluster"):
        NeighbourScore(fake).score(np.zeros((1, 18), dtype=np.float32))


def test_communication_on_one_node_is_a_quarter_of_the_rack_s() -> None:
    score = NeighbourScore(FakeInterference())
    score.expect(lambda job, gpus: Communication(0.0, 0.5, 0.6))
    found = score.neighbourhood.communicates(None, 4)
    assert found.local_frac == pytest.approx(1 / 5)
    assert found.rack_frac == 0.5
    assert score.neighbourhood.communicates(None, 1).local_frac == 0.0


def named(job_id: str, name: str) -> JobSpec:
    return replace(job(job_id, gpus=2), user_id=1000, name=name)


def corrected(mean: float) -> dict[str, float]:
    """Return the best score of each of two like nodes; job 0 is on the first, beside job 1's."""
    score = scored()
    pairs = (PairCorrection("1000 mine", "1000 foe", "nic", mean),)
    score = Plugins(neighbours=pairs).policies(score).score  # type: ignore[assignment]
    assert isinstance(score, NeighbourScore)
    score.expect(talks)
    specs = {
        JobId("0"): named("0", "foe"),
        JobId("1"): named("1", "friend"),
    }
    mine = named("9", "mine")
    question = replace(question_of(two_nodes(4, 4), 2), job=mine, spec_of=specs.get)
    return on_node(question, score.score_within(question))


def test_what_a_kind_suffered_beside_another_moves_it_away() -> None:
    plain, worse, better = corrected(0.0), corrected(0.2), corrected(-0.4)
    assert plain["n0-0"] - worse["n0-0"] == pytest.approx(PRICE * 0.2, abs=1e-3)
    assert worse["n0-1"] == plain["n0-1"] == better["n0-1"]
    # A correction never predicts that a neighbour helps.
    own = 1 / 8 * 3 / 16 * 4 / 6
    assert better["n0-0"] - plain["n0-0"] == pytest.approx(PRICE * own, abs=1e-3)


def test_the_costliest_neighbour_is_named_with_corrections() -> None:
    cluster, name, score = cluster_of([[2]]), NodeName("n0-0"), scored()
    cluster.hold(JobId("small"), [NodeShare(name, (0, 1), 1, 0)])
    cluster.hold(JobId("large"), [NodeShare(name, (2, 3, 4, 5), 1, 0)])
    specs = {JobId("small"): named("small", "foe"), JobId("large"): named("large", "friend")}
    mine = named("9", "mine")
    pair = PairCorrection(kind_of(mine), kind_of(specs[JobId("small")]), "nic", 0.3)
    score.corrections = Corrections((pair,))
    question = replace(question_of(cluster), job=mine, spec_of=specs.get)
    found = score.costliest(question, 0)
    assert found is not None
    assert found.job_id == "small"
    assert found.lost_frac > 0.2


def test_pairs_correct_a_run_that_continues_and_a_bad_one_is_not_made_again() -> None:
    def fed(*pairs: PairCorrection) -> tuple[str, ...]:
        engine = engine_with(FakeInterference())
        names = {"on a": "foe", "on b": "friend"}
        for name in ("a", "b"):
            spec = named(f"on {name}", names[f"on {name}"])
            held = (share(name, 0, 1, 2, 3),)
            engine.step(JobStarted(at_s=0.5, job_id=spec.job_id, shares=held, job=spec))
        engine.step(PairsSeen(at_s=0.8, pairs=pairs))
        found = placed(engine.step(JobQueued(at_s=1.0, job=named("9", "mine"))))
        assert engine.fallback_count == 0
        return found["9"].nodes

    def pair(other: str, *, is_bad: bool) -> PairCorrection:
        return PairCorrection("1000 mine", f"1000 {other}", "nic", 0.01, is_bad)

    assert fed() == ("a",)
    assert fed(pair("foe", is_bad=True)) == ("b",)
    assert fed(pair("foe", is_bad=True), pair("friend", is_bad=True)) == ("a",)  # no other place
    forgotten = PairCorrection("1000 mine", "1000 foe", "nic", 0.0)
    assert fed(pair("foe", is_bad=True), forgotten) == ("a",)


def test_the_best_candidate_s_loss_is_what_the_gate_reads() -> None:
    cluster = two_nodes(4, 4)
    own, other = 1 / 8, 3 / 16
    lost = 1 - np.exp(-own * other * 4 / 6)
    assert scored().lost_frac(question_of(cluster, 2)) == pytest.approx(lost, rel=1e-3)
    assert scored().lost_frac(question_of(cluster_of([[2]]), 2)) == 0.0
