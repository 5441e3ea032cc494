import pickle
from dataclasses import replace

import pytest

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.clusters.presets import preset
from roost_sim.errors import ProfileError
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.generator import generate
from roost_sim.traces.trace import make_trace
from roost_sim.worlds.fidelity import DEFAULT_FIDELITY, FIDELITIES, Regime, Setting
from roost_sim.worlds.measured_world import MeasuredWorld
from roost_sim.worlds.restart_cost import RestartRule
from roost_sim.worlds.speed.profiles import Profile
from roost_sim.worlds.world import Ended, FullSpeed, PlacedWorld, Started
from roost_sim.worlds.world_spec import Speed, WorldSpec

SMALL = preset("small")
JOBS = generate(HELIOS, 200, 1, max_gpu_count=16).at_load(1.0, SMALL.gpu_count)
PAPER, FIELD = FIDELITIES[Setting.PAPER], FIDELITIES[Setting.FIELD]
ONE, TWO = JobId("1"), JobId("2")


def halves(*nodes: int) -> tuple[NodeShare, ...]:
    return tuple(NodeShare(NodeName(f"n{node:05d}"), (0, 1, 2, 3)) for node in nodes)


def pcie_cluster() -> ClusterSpec:
    return preset("venus")


def test_the_same_trace_and_seed_give_every_policy_the_same_profiles() -> None:
    once, again = (WorldSpec().build(SMALL, JOBS, 3).profile_of for _ in range(2))
    other = WorldSpec().build(SMALL, JOBS, 4).profile_of
    assert once == again
    assert once != other


def test_a_run_survives_the_way_to_another_process() -> None:
    run = Run(trace=JOBS, cluster=SMALL, policy=find_policy("fifo"), world=WorldSpec(), seed=1)
    here, there = simulate(run), simulate(pickle.loads(pickle.dumps(run)))
    assert here.outcome.jobs == there.outcome.jobs


def test_no_job_gets_a_family_that_is_excluded() -> None:
    without = WorldSpec(exclude_families=("bert", "ncf")).build(SMALL, JOBS, 0)
    families = {profile.family for profile in without.profile_of.values()}
    assert not families & {"bert", "ncf"}
    assert len(families) > 5
    with pytest.raises(ProfileError, match="no model 'bret'"):
        WorldSpec(exclude_families=("bret",)).build(SMALL, JOBS, 0)


def test_a_published_speed_is_that_of_the_cluster_of_the_paper() -> None:
    spec = WorldSpec(speed=Speed.PUBLISHED)
    assert isinstance(spec.build(preset("dally-128"), JOBS, 0).world, PlacedWorld)
    assert isinstance(spec.build(SMALL, JOBS, 0).world, MeasuredWorld)
    assert isinstance(WorldSpec(speed=Speed.TRACE).build(SMALL, JOBS, 0).world, FullSpeed)


def test_contention_and_neighbours_are_switches_of_their_own() -> None:
    # Two jobs of model bert on the same two nodes: each feels the other through the nodes, through
    # the nodes' ports where these are full, or not at all.
    cluster = pcie_cluster()
    trace = make_trace("two", [0.0, 0.0], [100.0, 100.0], [8, 8])
    rates = list[float]()
    for contended, neighbours in ((False, False), (True, False), (False, True), (True, True)):
        fidelity = replace(PAPER, is_contended=contended, has_neighbours=neighbours)
        built = WorldSpec(fidelity=fidelity).build(cluster, trace, 0)
        built.world.rates_after(Started(ONE, halves(0, 1)))
        after = dict(built.world.rates_after(Started(TWO, halves(0, 1))))
        rates.append(after[TWO])
        assert (ONE in after) == (contended or neighbours)
        built.world.rates_after(Ended(ONE))
    free, contended_only, neighbours_only, both = rates
    assert both < min(contended_only, neighbours_only)
    assert max(contended_only, neighbours_only) < free


def test_compute_scale_and_congestion_move_the_communication() -> None:
    trace = make_trace("one", [0.0], [100.0], [8])
    shares = halves(0, 1)

    def rate(spec: WorldSpec) -> float:
        return dict(spec.build(pcie_cluster(), trace, 0).world.rates_after(Started(ONE, shares)))[
            ONE
        ]

    plain = rate(WorldSpec())
    assert rate(WorldSpec(compute_scale=10)) > plain
    assert rate(WorldSpec(congestion=4)) < plain
    with pytest.raises(ValueError, match="above 0"):
        WorldSpec(compute_scale=0)


def test_compute_is_what_the_closest_placement_leaves() -> None:
    trace = make_trace("one", [0.0], [100.0], [8])
    built = WorldSpec().build(pcie_cluster(), trace, 0)
    profile = built.profile_of[ONE]
    assert isinstance(profile, Profile)
    assert built.compute_frac is not None
    assert built.compute_frac(ONE, 8) == pytest.approx(1 / (1 + profile.local * 3))
    assert WorldSpec(speed=Speed.TRACE).build(SMALL, trace, 0).compute_frac is None


def test_an_oracle_knows_what_the_fidelity_allows() -> None:
    def told(policy: str, spec: WorldSpec) -> Regime:
        run = Run(trace=JOBS, cluster=SMALL, policy=find_policy(policy), world=spec)
        return simulate(run).regime

    assert told("sjf", WorldSpec()) is Regime.ORACLE
    assert told("sjf", WorldSpec(fidelity=FIELD)) is Regime.PREDICTED
    assert told("fifo", WorldSpec(fidelity=FIELD)) is Regime.NONE
    limits = replace(FIELD, durations=Regime.LIMIT)
    assert told("sjf", WorldSpec(fidelity=limits)) is Regime.LIMIT


def test_predictions_and_limits_change_which_job_comes_first() -> None:
    crowd = JOBS.at_load(8.0, SMALL.gpu_count)
    figures = {
        simulate(
            Run(
                trace=crowd,
                cluster=SMALL,
                policy=find_policy("sjf"),
                world=WorldSpec(
                    speed=Speed.TRACE, fidelity=replace(DEFAULT_FIDELITY, durations=durations)
                ),
            )
        ).metrics.avg_jct_s
        for durations in (Regime.ORACLE, Regime.PREDICTED, Regime.LIMIT)
    }
    assert len(figures) == 3


def test_restarts_cost_by_the_rule() -> None:
    trace = make_trace("one", [0.0], [100.0], [8])

    def cost(rule: RestartRule) -> float:
        fidelity = replace(PAPER, restart=rule)
        return (
            WorldSpec(speed=Speed.TRACE, fidelity=fidelity).build(SMALL, trace, 0).restart_s(ONE, 8)
        )

    assert [cost(rule) for rule in (RestartRule.FREE, RestartRule.DALLY, RestartRule.MEASURED)] == [
        0.0,
        8.0,
        40.0,
    ]
