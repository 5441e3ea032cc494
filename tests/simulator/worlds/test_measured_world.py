from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.cluster_spec import ClusterSpec, NetworkTier, NodeKind, TierSpec, make_racks
from roost_sim.clusters.link_shapes import SHAPES
from roost_sim.clusters.presets import preset
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.generator import generate
from roost_sim.worlds.measured_world import MeasuredWorld
from roost_sim.worlds.sharing.neighbours import STRETCH_PER_PRESSURE
from roost_sim.worlds.speed.profiles import Profile
from roost_sim.worlds.world import Ended, Started
from roost_sim.worlds.world_spec import WorldSpec

CHATTY = Profile(
    name="a/1@x",
    family="a",
    source="by hand",
    compute_s=1.0,
    local=0.0,
    spread=1.0,  # half of a step on several nodes is communication
    spread_log=0.0,
)
A, B, C = JobId("a"), JobId("b"), JobId("c")


def cluster(oversubscription: float = 1.0) -> ClusterSpec:
    kind = NodeKind(name="pairs", links=SHAPES["pcie4"])
    tier = TierSpec(bandwidth_bytes_per_s=8e9)
    above = TierSpec(bandwidth_bytes_per_s=8e9, oversubscription=oversubscription)
    tiers = {
        NetworkTier.NODE: tier,
        NetworkTier.RACK: tier,
        NetworkTier.POD: above,
        NetworkTier.CORE: above,
    }
    return ClusterSpec("test", "by hand", make_racks(kind, {"r0": 4, "r1": 4}), tiers)


def world(
    oversubscription: float = 1.0, *, is_contended: bool = True, has_neighbours: bool = False
) -> MeasuredWorld:
    profiles = dict.fromkeys((A, B, C), CHATTY)
    return MeasuredWorld(
        cluster(oversubscription),
        profiles,
        is_contended=is_contended,
        has_neighbours=has_neighbours,
    )


def start(job: JobId, *nodes: int) -> Started:
    shares = tuple(NodeShare(NodeName(f"n{node:05d}"), (0, 1)) for node in nodes)
    return Started(job, shares)


def test_one_node_is_full_speed_and_quiet() -> None:
    alone = world()
    assert list(alone.rates_after(start(A, 0))) == [(A, 1.0)]
    assert alone.communication_frac(A) == 0.0


def test_leaving_the_node_costs_what_was_measured() -> None:
    alone = world()
    assert dict(alone.rates_after(start(A, 0, 1))) == pytest.approx({A: 0.5})
    assert alone.communication_frac(A) == pytest.approx(0.5)


def test_two_jobs_whose_averages_fit_a_port_do_not_slow_each_other() -> None:
    both = world()
    both.rates_after(start(A, 0, 1))
    assert dict(both.rates_after(start(B, 1, 2))) == pytest.approx({B: 0.5})


def test_an_oversubscribed_uplink_slows_both_until_one_leaves() -> None:
    # 4 ports of 8 GB/s over 8:1 leave an uplink of 4 GB/s, which one job's average fills.
    both = world(oversubscription=8.0)
    assert dict(both.rates_after(start(A, 0, 4))) == pytest.approx({A: 0.5})
    slowed = dict(both.rates_after(start(B, 1, 5)))
    assert slowed == pytest.approx({A: 1 / 3, B: 1 / 3})
    assert both.communication_frac(A) == pytest.approx(2 / 3)
    assert dict(both.rates_after(start(C, 2, 3))) == pytest.approx({C: 0.5})
    assert dict(both.rates_after(Ended(B))) == pytest.approx({A: 0.5})


def test_without_contention_neighbours_are_not_felt() -> None:
    both = world(oversubscription=8.0, is_contended=False)
    both.rates_after(start(A, 0, 4))
    assert dict(both.rates_after(start(B, 1, 5))) == pytest.approx({B: 0.5})


def test_neighbours_on_a_node_stretch_the_exposed_part() -> None:
    # Each is exposed half of the time. B holds both GPUs of node 1 that are not A's: pressure 0.5.
    both = world(has_neighbours=True)
    assert dict(both.rates_after(start(A, 0, 1))) == pytest.approx({A: 0.5})
    slowed = 1 / (1 + 1 + 0.5 * STRETCH_PER_PRESSURE)
    assert dict(both.rates_after(start(B, 1, 2))) == pytest.approx({A: slowed, B: slowed})
    assert dict(both.rates_after(Ended(B))) == pytest.approx({A: 0.5})


def test_a_job_inside_an_nvlinked_node_neither_slows_nor_is_slowed() -> None:
    kind = NodeKind(name="joined", links=SHAPES["a100x4"])
    tiers = dict.fromkeys(NetworkTier, TierSpec(bandwidth_bytes_per_s=8e9))
    spec = ClusterSpec("test", "by hand", make_racks(kind, {"r0": 2}), tiers)
    talks = replace(CHATTY, local=0.5)
    both = MeasuredWorld(spec, dict.fromkeys((A, B), talks), has_neighbours=True)
    both.rates_after(start(A, 0))
    assert list(both.rates_after(start(B, 0))) == [(B, 1.0)]


def test_a_job_that_ended_is_forgotten() -> None:
    alone = world()
    alone.rates_after(start(A, 0, 1))
    assert list(alone.rates_after(Ended(A))) == []
    with pytest.raises(KeyError):
        alone.rate(A)
    assert list(alone.rates_after(start(A, 0))) == [(A, 1.0)]


def test_a_whole_run_only_ever_costs_time() -> None:
    trace = generate(HELIOS, 300, 1, max_gpu_count=16).at_load(0.8, 64)
    run = Run(
        trace=trace, cluster=preset("small"), policy=find_policy("fifo"), world=WorldSpec(), seed=0
    )
    jobs = simulate(run).outcome.jobs
    stretch = [
        (job.ended_s - job.started_s) / job.work_s
        for job in jobs
        if job.started_s is not None and job.ended_s is not None
    ]
    assert len(stretch) == 300
    assert min(stretch) > 1 - 1e-9
    assert max(stretch) > 1.05  # some job did not get the closest placement


@given(
    moves=st.lists(
        st.tuples(st.integers(0, 9), st.sets(st.integers(0, 7), min_size=1)), max_size=40
    )
)
def test_every_job_whose_rate_changes_is_returned(moves: list[tuple[int, set[int]]]) -> None:
    # Half of a four-GPU node each, so that two jobs fit on one; a job that runs already ends.
    profiles = {JobId(str(job)): CHATTY for job in range(10)}
    spec = cluster(oversubscription=8.0)
    both = MeasuredWorld(spec, profiles, has_neighbours=True)
    told = dict[JobId, float]()
    for number, nodes in moves:
        job = JobId(str(number))
        if job in told:
            told.pop(job)
            told.update(both.rates_after(Ended(job)))
        else:
            told.update(both.rates_after(start(job, *sorted(nodes))))
        assert told == {running: both.rate(running) for running in told}


def linked_world(
    shape: str, gpu_model: str = "a40", port_bytes_per_s: float = 1e12
) -> MeasuredWorld:
    kind = NodeKind(name="linked", links=SHAPES[shape], gpu_model=gpu_model)
    tiers = dict.fromkeys(NetworkTier, TierSpec(bandwidth_bytes_per_s=port_bytes_per_s))
    spec = ClusterSpec("test", "by hand", make_racks(kind, {"r0": 2}), tiers)
    talks = replace(CHATTY, local=0.5)
    return MeasuredWorld(spec, dict.fromkeys((A, B, C), talks), has_neighbours=True, has_links=True)


def held(job: JobId, *gpus: tuple[int, ...]) -> Started:
    names = (NodeName(f"n{number:05d}") for number in range(len(gpus)))
    return Started(
        job, tuple(NodeShare(name, some) for name, some in zip(names, gpus, strict=True))
    )


def test_a_pair_without_its_bridge_communicates_longer() -> None:
    alone = linked_world("bridges8")
    assert dict(alone.rates_after(held(A, (0, 1)))) == {A: 1.0}
    alone.rates_after(Ended(A))
    # 0.5 of exposed communication a step over a bridge of 48 GB/s, 20 GB/s without.
    slowed = (1 + 0.5) / (1 + 0.5 * 48 / 20)
    assert dict(alone.rates_after(held(A, (0, 2)))) == pytest.approx({A: slowed})
    assert alone.communication_frac(A) == pytest.approx(1.2 / 2.2)


def test_behind_a_switch_all_sets_are_equal() -> None:
    alone = linked_world("a100x8", "a100")
    assert dict(alone.rates_after(held(A, (1, 6)))) == {A: 1.0}


def test_on_several_nodes_only_links_slower_than_the_port_cost_time() -> None:
    for port_gbytes_per_s, stretch in ((12.5, 1.0), (25.0, 25 / 20)):
        alone = linked_world("bridges8", port_bytes_per_s=port_gbytes_per_s * 1e9)
        alone.rates_after(held(A, (0, 1), (0, 1)))
        good = alone.communication_frac(A)
        alone.rates_after(Ended(A))
        alone.rates_after(held(A, (0, 1), (0, 2)))
        assert alone.communication_frac(A) / (1 - alone.communication_frac(A)) == pytest.approx(
            stretch * good / (1 - good)
        )


def test_a_bridged_pair_is_no_neighbour_of_jobs_on_pcie() -> None:
    both = linked_world("bridges8")
    both.rates_after(held(A, (2, 4)))
    assert dict(both.rates_after(held(B, (0, 1)))) == {B: 1.0}
    alone = linked_world("bridges8")
    alone.rates_after(held(A, (2, 4)))
    assert both.rate(A) == alone.rate(A)
    assert set(dict(both.rates_after(held(C, (3, 5))))) == {C, A}


def test_without_links_all_gpus_of_a_node_are_equally_close() -> None:
    kind = NodeKind(name="linked", links=SHAPES["bridges8"], gpu_model="a40")
    tiers = dict.fromkeys(NetworkTier, TierSpec(bandwidth_bytes_per_s=1e12))
    spec = ClusterSpec("test", "by hand", make_racks(kind, {"r0": 2}), tiers)
    alone = MeasuredWorld(spec, {A: replace(CHATTY, local=0.5)})
    assert dict(alone.rates_after(held(A, (0, 7)))) == {A: 1.0}
