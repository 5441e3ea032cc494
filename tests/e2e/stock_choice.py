"""What Slurm chooses by itself: runs inside an image, prints one JSON object.

A throw-away cluster on the loopback interface, its nodes described as a site without Roost would:
one GPU type, and the link counts in gres.conf, from which Slurm is meant to pick well-linked GPUs.
"""

import json
import re
import sys
from importlib import resources

from roost_slurm.testing.cluster_plan import ClusterPlan, NodePlan
from roost_slurm.testing.local_slurm import LocalSlurm

KINDS = ("bridges8", "cube8")
REQUESTS = ("--gres=gpu:2", "--gres=gpu:3", "--gres=gpu:4", "--gres=gpu:6", "--gpus=2", "--gpus=4")


def gres_links(kind: str) -> tuple[tuple[int, ...], ...]:
    """Lane counts of a sample topology, [gpu, gpu], as slurmd's NVML plugin would find them."""
    text = (resources.files("roost_probe.testing") / "topologies" / f"{kind}.txt").read_text()
    rows = [line.split("\t") for line in text.splitlines() if line.startswith("GPU")]
    return tuple(
        tuple(-1 if i == j else _lanes(cell) for j, cell in enumerate(row[1 : len(rows) + 1]))
        for i, row in enumerate(rows)
    )


def choose(cluster: LocalSlurm, node: str, *requests: str) -> list[int]:
    """Start jobs one after another on an idle node; the GPUs of the last."""
    jobs = []
    for request in requests:
        jobs.append(cluster.submit("-n1", "-w", node, request))
        cluster.wait_for_state(jobs[-1], "RUNNING")
    found = re.search(r"\(IDX:([\d,-]+)\)", cluster.show_job(jobs[-1]))
    cluster.run("scancel", *jobs)
    for job in jobs:
        cluster.wait_for_state(job, "CANCELLED", "COMPLETED", "")
    return _expand(found[1]) if found else []


def main() -> None:
    """Measure every request on an idle node, and two GPUs beside a job that holds GPU 0."""
    links = {kind: gres_links(kind) for kind in KINDS}
    plan = ClusterPlan(
        nodes=tuple(NodePlan(name=kind, links=links[kind]) for kind in KINDS), kill_wait_s=1
    )
    with LocalSlurm(plan) as cluster:
        choices = {
            kind: {request: choose(cluster, kind, request) for request in REQUESTS}
            | {"--gres=gpu:2 with GPU 0 busy": choose(cluster, kind, "--gres=gpu:1", REQUESTS[0])}
            for kind in KINDS
        }
        version = cluster.run("sinfo", "--version").split()[1]
    json.dump({"slurm_version": version, "choices": choices}, sys.stdout)


def _lanes(cell: str) -> int:
    return int(cell.strip()[2:]) if cell.strip().startswith("NV") else 0


def _expand(indices: str) -> list[int]:
    spans = [span.partition("-") for span in indices.split(",")]
    return [i for low, _, high in spans for i in range(int(low), int(high or low) + 1)]


if __name__ == "__main__":
    main()
