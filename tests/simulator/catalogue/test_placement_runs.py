"""Whole simulations with every placement rule: every job ends, and placement matters."""

import pytest

from roost_sim.catalogue.compositions import POLICIES, find_policy
from roost_sim.catalogue.placements import PLACEMENTS
from roost_sim.clusters.presets import preset
from roost_sim.figures.metrics import Metrics
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.generator import generate
from roost_sim.worlds.world_spec import Speed, WorldSpec

SMALL = preset("small")
JOBS = generate(HELIOS, 100, 3, max_gpu_count=16).at_load(2.0, SMALL.gpu_count)


def metrics(policy: str, world: WorldSpec | None = None) -> Metrics:
    """What a policy makes of the jobs."""
    run = Run(trace=JOBS, cluster=SMALL, policy=find_policy(policy), world=world or WorldSpec())
    return simulate(run).metrics


def avg_jct_s(policy: str, world: WorldSpec | None = None) -> float:
    """The average job time under a policy."""
    found = metrics(policy, world).avg_jct_s
    assert found is not None
    return found


@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_job_ends_though_jobs_are_stopped_for_others(name: str) -> None:
    found = metrics(f"srtf+{name}+open+srtf")
    assert found.completed == len(JOBS)


def test_keeping_jobs_together_beats_scattering_them() -> None:
    together = max(avg_jct_s(f"fifo+{name}") for name in ("consolidation", "best-fit"))
    for name in ("random", "load-balance", "first-fit", "tetris-scattered"):
        assert avg_jct_s(f"fifo+{name}") > 1.2 * together


def test_where_placement_costs_nothing_it_makes_no_difference_which_gpus_are_taken() -> None:
    """Scattered jobs start wherever enough GPUs are free, if no nodes are reserved."""
    free = WorldSpec(speed=Speed.TRACE)
    names = (
        *("random", "first-fit", "load-balance", "best-fit", "knn"),
        *("tetris-scattered", "lif-scattered"),
    )
    averages = {name: avg_jct_s(f"fifo+{name}+open", free) for name in names}
    assert len(set(averages.values())) == 1, averages


def test_the_compositions_of_topdrl_are_six_and_its_own_two() -> None:
    names = [name for name in POLICIES if name.startswith("topdrl-")]
    assert len(names) == 8
    assert {POLICIES[name].placement for name in names} == {
        "first-fit",
        "load-balance-tree",
        "random",
        "knn",
    }
