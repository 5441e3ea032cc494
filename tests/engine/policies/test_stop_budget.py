"""stop_budget: what counts against a partition and a job, and for how long."""

from roost_engine.policies.stop_budget import StopBudget
from roost_engine.testing.builders import job


def test_a_partition_has_so_many_stops_in_an_hour() -> None:
    budget = StopBudget(per_hour=2, cooldown_s=60.0)
    budget.spend(job("1", partition="main"), 0.0)
    budget.spend(job("2", partition="main"), 1_800.0)
    budget.spend(job("3", partition="debug"), 1_800.0)
    assert (budget.left_count("main"), budget.left_count("debug")) == (0, 1)
    budget.forget_expired(3_599.0)
    assert budget.left_count("main") == 0
    budget.forget_expired(3_600.0)
    assert budget.left_count("main") == 1


def test_a_job_cools_down_and_the_last_request_counts() -> None:
    budget = StopBudget(per_hour=9, cooldown_s=60.0)
    budget.spend(job("1"), 0.0)
    budget.spend(job("2"), 10.0)
    budget.forget_expired(59.0)
    assert list(budget.asked) == ["1", "2"]
    budget.forget_expired(60.0)
    assert list(budget.asked) == ["2"]


def test_a_later_engine_knows_what_an_earlier_one_noted() -> None:
    before, after = StopBudget(2, 60.0), StopBudget(2, 60.0)
    before.spend(job("1", partition="main"), 5.0)
    after.restore(before.stops, before.asked.items())
    assert (after.left_count("main"), after.asked) == (1, {"1": 5.0})
