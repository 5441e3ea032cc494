"""Least workload first, on examples worked by hand."""

from tests.simulator.placing import drawn, of_gpus, put, rule

from roost_engine.domain.model import JobId
from roost_engine.testing.builders import job, share
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.traces.shapes import tightest_shapes


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
