"""Loads that cannot be, or are not true: neighbours are scored all the same, and Slurm wins."""

import numpy as np
import pytest
from tests.engine.scoring.graph_cluster import question_of
from tests.engine.scoring.test_neighbours import FakeInterference, engine_with, scored, two_nodes

from roost_engine.domain.events import JobQueued, JobStarted
from roost_engine.domain.model import JobId, NodeName
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import job, load_seen, placed, share

ABSURD = (np.nan, np.inf, -np.inf, -1.0, 1e30, 2.0**64, -(2.0**63))


@pytest.mark.parametrize("value", ABSURD)
def test_wrapped_and_absurd_counters_give_finite_scores_and_no_fault(value: float) -> None:
    cluster = two_nodes(4, 4)
    load = np.full((8, 4), value, dtype=np.float32)
    cluster.apply_loads((NodeName("n0-0"),), load[None])
    question = question_of(cluster, 2)
    found = scored().score_within(question)
    base = HeuristicScore().score(question.features)
    assert np.isfinite(found).all()
    assert (found <= base + 1e-4).all()
    assert (base - found).max() < 2.0  # no neighbour costs more than a full load does
    vectors = [scored().neighbourhood.residents(cluster, node).vectors for node in (0, 1)]
    assert all(((each >= 0) & (each <= 1)).all() for each in vectors)


def test_a_stuck_counter_is_a_load_like_any_other() -> None:
    cluster, score = two_nodes(4, 4), scored()
    load = np.full((8, 4), 63e9, dtype=np.float32)
    found = []
    for _ in range(5):
        cluster.apply_loads((NodeName("n0-0"),), load[None])
        found.append(score.score_within(question_of(cluster, 2)).tolist())
    assert all(each == found[0] for each in found)


def test_where_a_probe_says_idle_and_slurm_has_a_job_slurm_wins() -> None:
    engine = engine_with(FakeInterference())
    held = (share("a", 0, 1, 2, 3, 4, 5),)
    engine.step(JobStarted(at_s=0.5, job_id=JobId("on a"), shares=held))
    idle = np.zeros((8, 4), dtype=np.float32)
    for name in ("a", "b"):
        engine.step(load_seen(at_s=0.6, name=NodeName(name), load=idle))
    taken = set[tuple[str, int]]()
    for number in range(6):
        actions = engine.step(JobQueued(at_s=1.0 + number, job=job(str(number), gpus=2)))
        for place in placed(actions).values():
            for name, gpus in place.by_node():
                taken |= {(name, gpu) for gpu in gpus}
        engine.check_invariants()
    assert not taken & {("a", gpu) for gpu in range(6)}
    assert len(taken) == 10  # every GPU that Slurm has free, and no other
