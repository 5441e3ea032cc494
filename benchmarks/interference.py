"""What it costs to score candidates with interference: the model's batch, and the whole score.

Measured of the score, with 64 candidates and a job on every node: a decision like the one before
(`neighbours`); one after the job on one node has changed to another that was there before
(`one_node_changed`); one after a load was reported of one node, or of all nodes, that was never
there before (`one_node_loaded`, `all_loaded`); and one of which nothing is stored (`all_new`).
Changing and reporting are not timed.
"""

import argparse
import sys
from functools import partial
from itertools import count

import _harness
import numpy as np

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_engine.domain.topology import Level, Link, LinkMatrix
from roost_engine.placement.candidates import Listing
from roost_engine.placement.wide_search import WideSearch
from roost_engine.policies.protocols import ScoreQuestion
from roost_engine.prediction.interference.interference_estimates import InterferenceEstimates
from roost_engine.prediction.interference.interference_model import Cases
from roost_engine.prediction.interference.interference_vector import WIDTH
from roost_engine.scoring.graph_jobs import typical
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.scoring.neighbours import NeighbourScore
from roost_engine.testing.builders import job, node
from roost_formats.models.interference import load_interference

CANDIDATE_COUNT = 64
NODE_COUNT = 64
FLAT = LinkMatrix.uniform(8, Link(Level.SYSTEM))
_HELD = ((0, 1), (2, 3), (4, 5), (0, 2), (1, 4), (3, 6))


def _link(a: int, b: int) -> Link:
    if a // 2 == b // 2:
        return Link(Level.SINGLE_SWITCH)
    return Link(Level.NUMA_NODE if a // 4 == b // 4 else Level.SYSTEM)


def cluster() -> Cluster:
    """Return nodes of 8 PCIe GPUs with a job on each; half of them have switches and sockets."""
    rows = [[None if a == b else _link(a, b) for b in range(8)] for a in range(8)]
    links, found = LinkMatrix(tuple(map(tuple, rows))), Cluster()
    for number in range(NODE_COUNT):
        name = _name(number)
        found.apply_node(node(name, 8, cpu_count=64))
        is_flat = number % 2 == 0
        found.apply_topology(name, FLAT if is_flat else links, ())
        _hold(found, number, 0)
    return found


def _hold(found: Cluster, number: int, left_out: int) -> None:
    held = _HELD[number // 2 % len(_HELD)][left_out:]
    found.hold(JobId(f"on{number}"), [NodeShare(_name(number), held, 1, 0)])


def _name(number: int) -> NodeName:
    return NodeName(f"n{number:02d}")


def question(found: Cluster) -> ScoreQuestion:
    """Return a decision of 64 candidates for a job of two GPUs."""
    spec = job("1", gpus=2)
    candidates = WideSearch().propose(found, spec, 0, 0.0)
    listing = Listing(*(column[:CANDIDATE_COUNT] for column in candidates.listing()))
    return ScoreQuestion(
        candidates=candidates,
        listing=listing,
        features=candidates.features_of(listing),
        job=spec,
        cluster=found,
        spec_of=lambda job_id: None,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=_harness.whole, default=2000)
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
    nodes, score = cluster(), NeighbourScore(InterferenceEstimates(model))
    asked, times = question(nodes), count()

    def load(node_count: int) -> None:
        for number in range(node_count):
            nodes.apply_loads((_name(number),), rng.random((8, 4), dtype=np.float32)[None])

    figures: dict[str, object] = {
        "policy": model.name,
        "candidates": len(asked.features),
    }
    decide = partial(score.score_within, asked)
    for name, call, before in (
        ("model_128_cases", partial(model.slowdowns, cases), None),
        ("neighbours", decide, None),
        ("one_node_changed", decide, lambda: _hold(nodes, 0, next(times) % 2)),
        ("all_new", decide, lambda: score.expect(typical)),
        ("one_node_loaded", decide, partial(load, 1)),
        ("all_loaded", decide, partial(load, NODE_COUNT)),
        ("heuristic", partial(HeuristicScore().score, asked.features), None),
    ):
        seconds = _harness.timings_s(call, options.calls, before=before)
        for percent in (50, 99):
            figures[f"{name}_p{percent}_us"] = round(_harness.percentile(seconds, percent) * 1e6, 1)
    _harness.report(figures, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
