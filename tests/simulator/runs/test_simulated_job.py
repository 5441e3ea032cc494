"""simulated_job: what is noted of a placement."""

from tests.simulator.simulated import arrival, cluster, simulate

from roost_engine.testing.builders import shape


def test_notes_tier_links_and_held_gpus_of_a_placement() -> None:
    outcome = simulate(
        cluster(4, racks=2),
        arrival("1", 0, 10, 4),
        arrival("2", 0, 10, 8, shape(8, 2)),
        arrival("3", 20, 10, 8, shape(8, 4)),
    )
    assert [job.tier for job in outcome.jobs] == [0, 1, 2]
    assert [job.held_gpu_count for job in outcome.jobs] == [4, 16, 32]
    assert all(job.link_score == job.best_link_score > 0 for job in outcome.jobs)
