"""The world in which only queueing counts."""

from roost_sim.world import Ended, FullSpeed, Started
from roostd.core.model import JobId
from roostd.testing.builders import share


def test_full_speed_gives_each_job_rate_one_and_disturbs_nobody() -> None:
    world = FullSpeed()
    assert list(world.rates_after(Started(JobId("1"), (share("n0", 0),)))) == [("1", 1.0)]
    assert list(world.rates_after(Started(JobId("2"), (share("n0", 1),)))) == [("2", 1.0)]
    assert list(world.rates_after(Ended(JobId("1")))) == []
