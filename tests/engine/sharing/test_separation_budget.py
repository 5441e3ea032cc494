"""What may be stopped to separate pairs is the same after a restart as before it."""

from dataclasses import replace

from tests.engine.sharing.test_separation import (
    PAIRS,
    add_node,
    asked_to_stop,
    asks,
    bad_pair,
    report,
    settle,
)

from roost_engine.domain.model import JobId
from roost_engine.engine import EngineConfig
from roost_engine.plugins.plugins import Knowledge, Plugins, knowledge_of
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.sharing.pairs import SeparationConfig, SharingConfig
from roost_engine.sharing.separation_budget import SeparationBudget
from roost_engine.testing.builders import EngineHarness, job
from roost_formats.journal.codec import decode, encode

ONE_AN_HOUR = SeparationConfig(partitions=("main",), budget_per_hour=1)


def site_with(plugins: Plugins) -> EngineHarness:
    policies = plugins.policies(HeuristicScore())
    site = EngineHarness(config=EngineConfig(), policies=policies)
    add_node(site, "n1")
    return site


def after_a_restart(site: EngineHarness, plugins: Plugins) -> EngineHarness:
    """Another engine that knows what the journal has of stops; engine time continues.

    What the journal has of pairs is left out: the pairs of these tests would not be made again.
    """
    known = decode(encode(knowledge_of(site.engine.policies, Knowledge())), Knowledge)
    known = replace(known, sharing=None)
    later = site_with(replace(plugins, knowledge=known))
    later.advance(site.now_s)
    return later


def test_a_restart_gives_a_partition_no_stops_again() -> None:
    plugins = Plugins(sharing=SharingConfig(pairs=PAIRS, separation=ONE_AN_HOUR))
    site = site_with(plugins)
    bad_pair(site)
    add_node(site, "n2")
    settle(site)
    assert asked_to_stop(site) == ["2"]
    later = after_a_restart(site, plugins)
    later.run(asks("3"), asks("4"))
    report(later, "4", 0.5)
    add_node(later, "n2")
    settle(later)
    assert not asked_to_stop(later)  # the one stop of this hour was spent before
    later.advance(site.now_s + 3_600.0)
    report(later, "4", 0.5)
    assert asked_to_stop(later) == ["4"]


def test_jobs_that_were_separated_are_not_seated_together_after_a_restart() -> None:
    plugins = Plugins(sharing=SharingConfig(pairs=PAIRS, separation=ONE_AN_HOUR))
    site = site_with(plugins)
    bad_pair(site)
    add_node(site, "n2")
    settle(site)
    later = after_a_restart(site, plugins)
    later.run(asks("1"), asks("2"), asks("3"))
    seats = later.engine.cluster.seats
    assert seats is not None
    assert seats.partners(JobId("1")) == ("3",)  # there is one GPU, and job 2 asked first


def test_a_job_that_ended_is_forgotten_and_the_oldest_pairs_too() -> None:
    budget = SeparationBudget(SeparationConfig())
    for number in range(1_001):
        budget.spend(job(f"a{number}"), JobId(f"b{number}"), float(number))
    assert not budget.have_parted(JobId("a0"), JobId("b0"))
    assert budget.have_parted(JobId("b1"), JobId("a1"))
    budget.forget(JobId("b1"))
    assert not budget.have_parted(JobId("a1"), JobId("b1"))
    assert len(budget.state().parted) == 999
