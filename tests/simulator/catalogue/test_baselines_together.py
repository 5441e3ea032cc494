"""All baselines on one small trace: every job completes, none beats the bound, oracles lead."""

from functools import cache

import pytest

from roost_sim.catalogue.compositions import POLICIES, find_policy
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.clusters.presets import preset
from roost_sim.figures.metrics import Span
from roost_sim.runs.simulation import Report, Run, simulate
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.generator import generate
from roost_sim.traces.trace import Trace
from roost_sim.worlds.fidelity import Fidelity, Regime
from roost_sim.worlds.restart_cost import RestartRule
from roost_sim.worlds.world_spec import Speed, WorldSpec

# Queueing alone: the speed of the trace everywhere, and a restart that costs nothing.
QUEUEING = WorldSpec(
    speed=Speed.TRACE,
    fidelity=Fidelity(
        is_contended=False,
        has_neighbours=False,
        restart=RestartRule.FREE,
        durations=Regime.ORACLE,
    ),
)


@cache
def busy() -> tuple[Trace, ClusterSpec]:
    cluster = preset("small")
    trace = generate(HELIOS, 120, 3, max_gpu_count=32)
    return trace.at_load(1.2, cluster.gpu_count), cluster


@cache
def report(name: str, world: WorldSpec = QUEUEING) -> Report:
    trace, cluster = busy()
    span = Span(warm_up_frac=0.0, cool_down_frac=0.0)
    return simulate(
        Run(trace=trace, cluster=cluster, policy=find_policy(name), world=world, span=span)
    )


def avg_jct_s(name: str, world: WorldSpec = QUEUEING) -> float:
    found = report(name, world).metrics.avg_jct_s
    assert found is not None
    return found


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_job_completes_and_no_policy_beats_the_bound(name: str) -> None:
    figures = report(name).metrics
    assert figures.completed == figures.jobs == 120
    assert figures.bound_avg_jct_s is not None
    assert avg_jct_s(name) >= figures.bound_avg_jct_s


def test_srtf_leads_the_orders_that_never_stop_a_job() -> None:
    never_stop = ("sjf", "fifo", "fifo-easy", "random-order", "optimus", "tetris")
    assert avg_jct_s("srtf") <= min(avg_jct_s(name) for name in never_stop)


def test_preemptive_policies_without_run_times_beat_fifo_under_load() -> None:
    for name in ("las", "tiresias", "tiresias-consolidated", "gittins-2d", "themis"):
        assert avg_jct_s(name) < avg_jct_s("fifo"), name


def test_so_it_is_where_placement_and_restarts_cost() -> None:
    field = WorldSpec()
    never_stop = ("sjf", "fifo", "fifo-easy", "random-order", "optimus", "tetris", "lif", "lwf")
    assert avg_jct_s("srtf", field) <= min(avg_jct_s(name, field) for name in never_stop)
    for name in ("las", "tiresias", "tiresias-consolidated", "themis", "srsf"):
        assert avg_jct_s(name, field) < avg_jct_s("fifo", field), name
    assert avg_jct_s("fifo", field) < avg_jct_s("random", field)


@pytest.mark.parametrize("name", ["srtf", "gittins-2d", "themis", "drf", "asrpt", "dally"])
def test_a_run_can_be_repeated(name: str) -> None:
    again = report.__wrapped__(name)
    assert again.outcome.jobs == report(name).outcome.jobs
