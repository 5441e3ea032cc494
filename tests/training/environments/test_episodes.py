"""Episodes are drawn by their seeds alone."""

import numpy as np
import pytest
from tests.training.environments.small_episodes import cluster, episodes

from roost_train.environments.episodes import Draw


@pytest.mark.parametrize("draw", list(Draw))
def test_a_seed_always_draws_the_same_episode(draw: Draw) -> None:
    drawn = episodes(draw=draw, clusters=(cluster(1), cluster(2)), loads=(0.9, 1.3))
    first, again, other = drawn.run(1), drawn.run(1), drawn.run(2)
    assert first.cluster is again.cluster
    assert np.array_equal(first.trace.submit_s, again.trace.submit_s)
    assert not np.array_equal(first.trace.submit_s, other.trace.submit_s)


def test_episodes_have_the_load_that_was_asked_for() -> None:
    drawn = episodes(loads=(1.3,)).run(5)
    assert abs(drawn.trace.load(drawn.cluster.gpu_count) - 1.3) < 0.05


def test_several_clusters_and_loads_are_drawn() -> None:
    drawn = episodes(clusters=(cluster(1), cluster(2)), loads=(0.9, 1.3))
    sizes = {drawn.run(seed).cluster.gpu_count for seed in range(12)}
    assert sizes == {4, 8}


def test_sampled_episodes_have_jobs_from_all_over_the_trace_and_windows_neighbours() -> None:
    spans = {}
    for draw in Draw:
        drawn = episodes(draw=draw)
        whole = drawn.trace.duration_s.tolist()
        places = [whole.index(one) for one in drawn.run(2).trace.duration_s.tolist()]
        spans[draw] = max(places) - min(places)
    assert spans[Draw.WINDOW] < 100
    assert spans[Draw.SAMPLED] > 150
