"""A whole run: figures by hand, what a policy knows, and the events of a cluster."""

from dataclasses import replace

from roost_engine.domain.events import NodeSeen, TopologySeen
from roost_engine.domain.model import NodeShare
from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.presets import preset
from roost_sim.figures.metrics import Span
from roost_sim.runs.simulation import Run, introduce, simulate
from roost_sim.traces.trace import make_trace
from roost_sim.worlds.fidelity import FIDELITIES, Regime, Setting
from roost_sim.worlds.world_spec import Speed, WorldSpec

SMALL = preset("small")  # 64 GPUs
TWO = Run(
    trace=make_trace("by hand", [0.0, 10.0], [100.0, 50.0], [64, 64]),
    cluster=SMALL,
    policy=find_policy("fifo"),
    world=WorldSpec(speed=Speed.TRACE),
    span=Span(warm_up_frac=0.0, cool_down_frac=0.0),
)


def test_two_jobs_of_the_whole_cluster_run_one_after_the_other() -> None:
    report = simulate(TWO)
    # 0 to 100, and 100 to 150: completion times 100 and 140.
    assert report.metrics.avg_jct_s == 120.0
    assert report.metrics.makespan_s == 150.0
    assert report.metrics.occupancy == 1.0
    assert report.regime is Regime.NONE


def test_an_oracle_knows_what_the_fidelity_allows() -> None:
    oracle = replace(TWO, policy=find_policy("sjf"))
    assert simulate(oracle).regime is Regime.ORACLE
    field = replace(oracle.world, fidelity=FIDELITIES[Setting.FIELD])
    assert simulate(replace(oracle, world=field)).regime is Regime.PREDICTED


def test_speeds_are_reported_to_policies_that_ask_if_the_world_has_reports() -> None:
    silent = replace(TWO.world, reports_speed=False)
    asks = replace(TWO, policy=find_policy("s-rank"))
    reported = simulate(asks).outcome.event_count
    # One report for each of the two jobs when it starts.
    assert simulate(replace(asks, world=silent)).outcome.event_count == reported - 2


def test_every_interval_in_which_a_job_held_gpus_is_observed() -> None:
    held: list[tuple[int, float, float]] = []

    def observe(shares: tuple[NodeShare, ...], begin_s: float, end_s: float) -> None:
        held.append((sum(len(share.gpu_indices) for share in shares), begin_s, end_s))

    simulate(replace(TWO, on_hold=observe))
    assert held == [(64, 0.0, 100.0), (64, 100.0, 150.0)]


def test_a_cluster_is_introduced_node_by_node_with_its_links() -> None:
    events = list(introduce(SMALL))
    assert [type(event) for event in events] == [NodeSeen, TopologySeen] * len(SMALL.nodes)
    assert all(event.at_s == 0.0 for event in events)
