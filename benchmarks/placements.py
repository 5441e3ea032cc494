"""How long each placement rule of the simulator takes to place one job.

In a cluster whose GPUs are held at random by jobs of one GPU, each rule proposes placements for
jobs of 1, 8 and 64 GPUs again and again. A rule that finds no placement answers sooner, so such
figures are left out.
"""

import argparse
from functools import partial

import _harness
import numpy as np

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NO_NODES
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.testing.builders import bridges, job, node, share
from roost_sim.catalogue.placements import PLACEMENTS
from roost_sim.information.policy_information import PolicyInformation

GPUS_PER_NODE, NODES_PER_RACK = 8, 16
JOB_SIZES = (1, 8, 64)


def busy_cluster(node_count: int, busy_frac: float, seed: int) -> Cluster:
    """Return nodes of eight GPUs with NVLink bridges, some of which are taken."""
    rng, cluster, links = np.random.default_rng(seed), Cluster(), bridges(GPUS_PER_NODE)
    for number in range(node_count):
        spec = node(f"n{number:05d}", GPUS_PER_NODE, rack=f"r{number // NODES_PER_RACK}")
        cluster.apply_node(spec)
        cluster.apply_topology(spec.name, links, ())
        for gpu in np.flatnonzero(rng.random(GPUS_PER_NODE) < busy_frac).tolist():
            cluster.hold(JobId(f"{number}_{gpu}"), [share(spec.name, gpu)])
    return cluster


def request(name: str, gpu_count: int, information: PolicyInformation) -> JobSpec:
    """Return a job of the shapes that a rule accepts."""
    part, job_id = PLACEMENTS[name], JobId("new")
    if part.shapes_by_job is not None:
        return job(job_id, *part.shapes_by_job(information)(job_id, gpu_count, GPUS_PER_NODE))
    return job(job_id, *part.shapes(gpu_count, GPUS_PER_NODE))


def measure(name: str, cluster: Cluster, count: int) -> dict[str, float]:
    """Median milliseconds of a proposal, by size of the job."""
    information = PolicyInformation(work_s={}, seed=0)
    policy, figures = PLACEMENTS[name].candidates(information), dict[str, float]()
    for gpu_count in JOB_SIZES:
        spec = request(name, gpu_count, information)
        if len(policy.propose(cluster, spec, NO_NODES, 0.0)):
            propose = partial(policy.propose, cluster, spec, NO_NODES, 0.0)
            seconds = _harness.timings_s(propose, count)
            figures[f"gpus_{gpu_count}_ms"] = 1e3 * _harness.percentile(seconds, 50)
    return figures


def main() -> None:
    """Measure every rule, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=_harness.whole, default=256)
    parser.add_argument("--busy-frac", type=_harness.number, default=0.5)
    parser.add_argument("--count", type=_harness.whole, default=200, help="proposals a figure")
    parser.add_argument("--seed", type=_harness.whole_or_0, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("rules", nargs="*", default=list(PLACEMENTS))
    arguments = parser.parse_args()
    cluster = busy_cluster(arguments.nodes, arguments.busy_frac, arguments.seed)
    figures = {
        f"{name}.{key}": value
        for name in arguments.rules
        for key, value in measure(name, cluster, arguments.count).items()
    }
    _harness.report({"nodes": arguments.nodes, **figures}, as_json=arguments.json)


if __name__ == "__main__":
    main()
