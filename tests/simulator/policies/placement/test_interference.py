"""Least interference, on examples worked by hand."""

import pytest
from tests.simulator.placing import drawn, of_gpus, put, rule

from roost_engine.domain.model import JobId
from roost_engine.testing.builders import job
from roost_sim.clusters.presets import preset
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.policies.placement.interference import LeastInterference
from roost_sim.policies.placement.scatter import Scattered
from roost_sim.policies.placement.whole_pieces import WholePieces
from roost_sim.traces.shapes import tightest_shapes
from roost_sim.worlds.speed.profiles import Profile
from roost_sim.worlds.speed.tier_efficiency import TierEfficiency

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


def test_the_profile_says_how_much_a_job_communicates() -> None:
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


def test_a_job_without_communication_goes_where_it_fits_best() -> None:
    quiet = WholePieces(LeastInterference(lambda job_id, gpus, nodes: float(job_id != "new")))
    assert put(quiet, drawn(NODES), job("new", *tightest_shapes(2, 4))) == {"n0": (2, 3)}
