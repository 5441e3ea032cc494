"""What it costs to score candidates with interference: the model's batch, and the whole score."""

import argparse
import sys
from functools import partial

import _harness
import numpy as np

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_engine.domain.topology import Level, Link, LinkMatrix
from roost_engine.placement.wide_search import WideSearch
from roost_engine.policies import ScoreQuestion
from roost_engine.prediction.interference_estimates import InterferenceEstimates
from roost_engine.prediction.interference_model import Cases
from roost_engine.prediction.interference_vector import WIDTH
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.scoring.neighbours import NeighbourScore
from roost_engine.testing.builders import job, node
from roost_formats.models.interference import load_interference

CANDIDATE_COUNT = 64  # of the model alone: as newcomer and as joined, 128 cases
NODE_COUNT = 64


def question() -> ScoreQuestion:
    """Return a decision of 80 candidates on PCIe nodes of 8 GPUs with a job of two GPUs on each."""
    cluster = Cluster()
    for number in range(NODE_COUNT):
        name = f"n{number:02d}"
        cluster.apply_node(node(name, 8, cpu_count=64))
        cluster.apply_topology(NodeName(name), LinkMatrix.uniform(8, Link(Level.SYSTEM)), ())
        held = NodeShare(NodeName(name), (0, 1), 1, 0)
        cluster.hold(JobId(f"on{number}"), [held])
    spec = job("1", gpus=3)
    candidates = WideSearch().propose(cluster, spec, 0, 0.0)
    listing = candidates.listing()
    return ScoreQuestion(
        candidates=candidates,
        listing=listing,
        features=candidates.features_of(listing),
        job=spec,
        cluster=cluster,
        spec_of=lambda job_id: None,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    model, fault = load_interference()
    if fault is not None:
        print(f"interference.py: {fault}", file=sys.stderr)
        return 2
    cases = Cases.empty(2 * CANDIDATE_COUNT)
    rng = np.random.default_rng(0)
    for level in ("switch", "socket", "nic"):
        cases.level(level)[:] = rng.random((len(cases.own), WIDTH))
    asked, score = question(), NeighbourScore(InterferenceEstimates(model))
    figures: dict[str, object] = {
        "policy": model.name,
        "candidates": len(asked.features),
    }
    for name, call in (
        ("model_128_cases", partial(model.slowdowns, cases)),
        ("neighbours", partial(score.score_within, asked)),
        ("heuristic", partial(HeuristicScore().score, asked.features)),
    ):
        seconds = _harness.timings_s(call, options.calls)
        for percent in (50, 99):
            figures[f"{name}_p{percent}_us"] = round(_harness.percentile(seconds, percent) * 1e6, 1)
    _harness.report(figures, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
