"""Episodes are drawn by their seeds alone."""

import numpy as np
import pytest
from tests.training.environments.small_episodes import OneTrace, cluster, episodes, racks

from roost_sim.traces.trace import make_trace
from roost_train.environments.episodes import Draw
from roost_train.environments.slot_run import Slot


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


@pytest.mark.parametrize("slot", list(Slot))
def test_several_agents_share_the_reward_of_the_whole_cluster(slot: Slot) -> None:
    drawn = episodes(
        job_count=40,
        clusters=(racks({"r0": 2, "r1": 2}),),
        agents=2,
        slot=slot,
        teacher="fifo+consolidation+patient",
        loads=(1.5,),
        draw=Draw.WINDOW,
    )
    run, total = drawn.begin(1), 0.0
    while (found := run.next_choices()) is not None:
        total += found.reward
        run.choose(run.teachers_choice(found))
    total += run.take_reward()
    jct_s = [job.ended_s - job.submit_s for job in run.finish().jobs if job.ended_s is not None]
    assert len(jct_s) == 40
    assert total == pytest.approx(-sum(jct_s))


def test_an_agents_job_is_offered_when_its_own_nodes_are_free() -> None:
    # Each rack is an agent's, and has one node; every job takes a whole one. Jobs 3 and 5 belong to
    # the agent of job 1, so they wait for it, also when the other node is free.
    jobs = make_trace("made up", [0.0, 1.0, 2.0, 3.0, 3.0], [100.0, 50.0, 9.0, 9.0, 9.0], [4] * 5)
    drawn = OneTrace(
        trace=jobs,
        clusters=(racks({"r0": 1, "r1": 1}),),
        loads=(1.0,),
        job_count=5,
        warm_count=0,
        agents=2,
        teacher="fifo+consolidation+open",
    )
    run = drawn.begin_order(0)
    assert run.driver.engine.config.agents == 2
    while (found := run.next_choices()) is not None:
        run.choose(run.teachers_choice(found))
    ends = sorted(job.ended_s for job in run.finish().jobs if job.ended_s is not None)
    assert ends == [51.0, 60.0, 100.0, 109.0, 118.0]
    assert run.driver.engine.forwarded_count == 0  # no pass has tried a job that does not fit
