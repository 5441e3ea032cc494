"""Tiresias' skew rule: who must stay together, and who goes anywhere."""

from tests.simulator.placing import drawn, of_gpus, put, rule
from tests.simulator.simulated import cluster, simulate

from roost_engine.domain.model import JobId
from roost_engine.testing.builders import job, shape
from roost_sim.catalogue.compositions import find_policy
from roost_sim.catalogue.placements import PLACEMENTS
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.policies.placement.scatter import Scattered
from roost_sim.policies.placement.scatter_rules import FirstFit
from roost_sim.policies.placement.skew import SkewRule, is_skewed
from roost_sim.traces.arrival import Arrival
from roost_sim.worlds.speed.profiles import Profile


def profile(family: str) -> Profile:
    """Of a family; how fast it is plays no part here."""
    return Profile(
        name=family, family=family, source="", compute_s=1.0, local=0.0, spread=0.0, spread_log=0.0
    )


def known(**families: str) -> PolicyInformation:
    """Which model each job trains."""
    profile_of = {JobId(name): profile(family) for name, family in families.items()}
    return PolicyInformation(work_s={}, seed=0, profile_of=profile_of)


def test_the_models_that_tiresias_names_are_the_skewed_ones() -> None:
    skewed = ("alexnet", "vgg11", "vgg16", "vgg19")
    level = ("resnet18", "resnet50", "bert", "shufflenet", "mobilenetv3", "of unknown size")
    assert [is_skewed(name) for name in (*skewed, *level)] == [True] * 4 + [False] * 6


def test_a_skewed_model_waits_for_one_node_and_another_is_balanced() -> None:
    placement = rule("skew-scattered", known(v="vgg16", r="resnet50"))
    nodes = drawn("a....... b.......")
    assert put(placement, nodes, of_gpus(4, job_id="v")) == {"n0": (1, 2, 3, 4)}
    shapes = SkewRule(lambda job_id: job_id == "v", Scattered(FirstFit())).shapes
    assert put(placement, nodes, job("v", *shapes(JobId("v"), 8, 8))) is None
    spread = {"n0": (1, 2, 3, 4), "n1": (1, 2, 3, 4)}
    assert put(placement, nodes, job("r", *shapes(JobId("r"), 8, 8))) == spread
    # 8 on one node: none; 4 and 4: the same four of each, the heuristic takes the first four free.
    placement = rule("skew", known(v="vgg16", r="resnet50"))
    assert put(placement, nodes, job("r", *shapes(JobId("r"), 8, 8))) == spread
    assert put(placement, nodes, job("v", *shapes(JobId("v"), 8, 8))) is None


def test_both_sorts_never_ask_for_the_same() -> None:
    shapes = SkewRule(lambda job_id: job_id == "v", Scattered(FirstFit())).shapes
    for gpus_per_node in (1, 2, 4, 8):
        for gpu_count in range(1, 40):
            together = shapes(JobId("v"), gpu_count, gpus_per_node)
            assert together != shapes(JobId("r"), gpu_count, gpus_per_node)


def test_one_that_waits_does_not_hold_up_its_like() -> None:
    # Half of each node is taken until 100. Both want 8 GPUs: v waits, r starts at once.
    information = known(v="vgg16", r="resnet50")
    rule_of_shapes = PLACEMENTS["skew"].shapes_by_job
    assert rule_of_shapes is not None
    shapes = rule_of_shapes(information)
    arrivals = [
        Arrival(spec=job("a", shape(4, 2)), work_s=100.0, gpu_count=8),
        Arrival(spec=job("v", *shapes(JobId("v"), 8, 8), submit_s=1.0), work_s=10.0, gpu_count=8),
        Arrival(spec=job("r", *shapes(JobId("r"), 8, 8), submit_s=2.0), work_s=10.0, gpu_count=8),
    ]
    policies = find_policy("fifo+skew").build(information)
    outcome = simulate(cluster(2), *arrivals, policies=policies)
    assert {found.job_id: found.started_s for found in outcome.jobs} == {"a": 0, "v": 100, "r": 2}
