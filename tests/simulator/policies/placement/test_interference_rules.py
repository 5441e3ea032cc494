"""Least interference and least workload, each on an example worked by hand."""

import pytest
from tests.simulator.placing import drawn, of_gpus, put, rule

from roost_engine.domain.model import JobId
from roost_engine.testing.builders import job, share
from roost_sim.clusters.presets import preset
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.policies.placement.interference import LeastInterference
from roost_sim.policies.placement.scatter import Scattered
from roost_sim.policies.placement.whole_pieces import WholePieces
from roost_sim.traces.shapes import tightest_shapes
from roost_sim.worlds.profiles import Profile
from roost_sim.worlds.tier_efficiency import TierEfficiency

NODES = "aa.. b... ...."


@pytest.mark.parametrize(
    ("gpu_count", "expected"),
    [
        # Each job as loud. Being on n0 costs 2/4 and each GPU there 1/4, on n1 1/4 and 1/4.
        (4, {"n2": (0, 1, 2, 3)}),
        (5, {"n1": (1,), "n2": (0, 1, 2, 3)}),
        # The second GPU on n1 costs 1/4, the first on n0 3/4.
        (7, {"n1": (1, 2, 3), "n2": (0, 1, 2, 3)}),
        (8, {"n0": (2,), "n1": (1, 2, 3), "n2": (0, 1, 2, 3)}),
    ],
)
def test_least_interference_adds_gpu_by_gpu(
    gpu_count: int, expected: dict[str, tuple[int, ...]]
) -> None:
    assert put(rule("lif-scattered"), drawn(NODES), of_gpus(gpu_count, 4)) == expected


def test_a_silent_neighbour_costs_nothing() -> None:
    policy = Scattered(LeastInterference(lambda job_id, gpus, nodes: float(job_id == "b")))
    assert put(policy, drawn(NODES), of_gpus(2, 4)) == {"n0": (2, 3)}


def test_who_does_not_communicate_is_silent_by_its_profile() -> None:
    # a has two GPUs that talk half as long as they compute; b and c have one GPU each.
    talker = Profile(
        name="t", family="t", source="", compute_s=1.0, local=0.5, spread=0.5, spread_log=0.0
    )
    information = PolicyInformation(
        work_s={},
        seed=0,
        profile_of={JobId(name): talker for name in "abc"},
        tiers=TierEfficiency.of(preset("small")),
    )
    cluster = drawn("aa...... b..c....")
    assert put(rule("lif-scattered", information), cluster, of_gpus(2)) == {"n1": (1, 2)}
    assert put(rule("lif-scattered"), cluster, of_gpus(2)) == {"n0": (2, 3)}  # one loud, or two


def test_least_workload_goes_by_what_is_left() -> None:
    work_s = {JobId("a"): 200.0, JobId("b"): 300.0}
    lwf = rule("lwf-1", PolicyInformation(work_s=work_s, seed=0))
    cluster = drawn(".... ....")
    for name, gpu_count, expected in (("a", 2, {"n0": (0, 1)}), ("b", 1, {"n1": (0,)})):
        assert put(lwf, cluster, of_gpus(gpu_count, 4, name)) == expected
        (at, gpus) = next(iter(expected.items()))
        cluster.hold(JobId(name), [share(at, *gpus)])
    # At 0: a has 2 x 200 GPU-seconds on n0, b 300 on n1. At 150: 2 x 50 and 150.
    assert put(lwf, cluster, of_gpus(2, 4), at_s=0.0) == {"n1": (1, 2)}
    assert put(lwf, cluster, of_gpus(2, 4), at_s=150.0) == {"n0": (2, 3)}


def test_a_job_of_no_more_than_kappa_gpus_is_spread() -> None:
    # Each GPU that new takes adds 50: n1 has 300, then 350, n0 320, n1 again.
    work_s = {JobId("a"): 160.0, JobId("b"): 300.0, JobId("new"): 50.0}
    expected = {"lwf-1": {"n1": (1, 2)}, "lwf-4": {"n0": (2,), "n1": (1,)}}
    for name, placed in expected.items():
        policy = rule(name, PolicyInformation(work_s=work_s, seed=0))
        assert put(policy, drawn("aa.. b..."), of_gpus(2, 4)) == placed


def test_lwf_fills_nodes_only_with_jobs_that_they_hold_whole() -> None:
    # n0 has least to do, but two GPUs are on n1 alone; and three, of more than k, are nowhere.
    work_s = {JobId("a"): 100.0, JobId("b"): 100.0, JobId("c"): 900.0, JobId("new"): 1.0}
    for name, of_two in (("lwf-1", {"n1": (2, 3)}), ("lwf-4", {"n0": (3,), "n2": (1,)})):
        policy = rule(name, PolicyInformation(work_s=work_s, seed=0))
        cluster = drawn("aaa. cc.. b.bb")
        assert put(policy, cluster, job("new", *tightest_shapes(2, 4))) == of_two
        assert put(policy, cluster, job("new", *tightest_shapes(5, 4))) is None
        another = rule(name, PolicyInformation(work_s=work_s, seed=0))
        of_four = put(another, drawn("aa.. bb.."), job("new", *tightest_shapes(4, 4)))
        assert of_four == (None if name == "lwf-1" else {"n0": (2, 3), "n1": (2, 3)})


def test_least_interference_keeps_a_job_together_where_it_disturbs_least() -> None:
    # All as loud as can be. Two GPUs slow each job on a node by 2/4, and are slowed by each GPU
    # there by 1/4: n0 2/4 + 2/4, n1 2/4 + 1/4, n2 nothing. Three are on n1 or n2, four on n2 only,
    # and 2 x 4 are nowhere: it waits.
    nodes = drawn(NODES)
    assert put(rule("lif"), nodes, job("new", *tightest_shapes(2, 4))) == {"n2": (0, 1)}
    assert put(rule("lif"), drawn("aa.. b..."), job("new", *tightest_shapes(2, 4))) == {
        "n1": (1, 2)
    }
    assert put(rule("lif"), nodes, job("new", *tightest_shapes(4, 4))) == {"n2": (0, 1, 2, 3)}
    assert put(rule("lif"), nodes, job("new", *tightest_shapes(8, 4))) is None


def test_lif_counts_each_job_that_it_disturbs_once_a_gpu() -> None:
    # Three GPUs. n0: two jobs, each slowed by 3/8, and their two GPUs: 6/8 + 2/8. n1: one job,
    # 3/8, and its four GPUs: 3/8 + 4/8.
    nodes = drawn("ab...... cccc....")
    assert put(rule("lif"), nodes, job("new", *tightest_shapes(3, 8))) == {"n1": (4, 5, 6)}


def test_who_disturbs_nobody_goes_where_it_fits_best() -> None:
    quiet = WholePieces(LeastInterference(lambda job_id, gpus, nodes: float(job_id != "new")))
    assert put(quiet, drawn(NODES), job("new", *tightest_shapes(2, 4))) == {"n0": (2, 3)}
