"""The worlds in which jobs do not feel each other."""

from roost_engine.domain.model import JobId
from roost_engine.testing.builders import share
from roost_sim.worlds.world import Ended, FullSpeed, PlacedWorld, Started


def test_full_speed_gives_each_job_rate_one_and_changes_no_other() -> None:
    world = FullSpeed()
    assert list(world.rates_after(Started(JobId("1"), (share("n0", 0),)))) == [("1", 1.0)]
    assert list(world.rates_after(Started(JobId("2"), (share("n0", 1),)))) == [("2", 1.0)]
    assert list(world.rates_after(Ended(JobId("1")))) == []


def test_a_placed_world_asks_for_a_started_job_and_no_other() -> None:
    world = PlacedWorld(lambda job_id, shares: 1 / len(shares))
    two = share("n0", 0), share("n1", 0)
    assert list(world.rates_after(Started(JobId("1"), two))) == [(JobId("1"), 0.5)]
    assert list(world.rates_after(Ended(JobId("1")))) == []
