"""What the graph model costs: the tree from scratch, a changed rack or node, whole decisions.

`rack_model` is the model's part of a changed rack: the same question asked again and again, with
the checks of its answers. Whole decisions are also given in CPU seconds of the thread, which depend
less on what else the machine does.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import _harness
import numpy as np
from _busy_cluster import NODES_PER_RACK, busy_engine, gpus_of_one_node
from numpy.typing import NDArray

from roost_engine.domain.actions import Place
from roost_engine.domain.events import JobEnded, JobQueued, JobStarted
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.engine import Engine
from roost_engine.job_record import shares_of
from roost_engine.placement.wide_search import WideSearch
from roost_engine.plugins.plugins import Policies
from roost_engine.scoring.graph_tree import GraphTree
from roost_engine.testing.builders import job
from roost_formats.models.checked_model import CheckedModel
from roost_formats.models.loader import load_model
from roost_formats.models.score import GRAPH_MODEL, OnnxGraphModel, load_onnx_graph
from roost_formats.models.signature import GRAPH

GANG_EVERY, GANGS = 10, ((2, 8), (2, 4), (4, 8), (4, 2))  # nodes, GPUs on each


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--nodes", type=_harness.whole, default=1250, help="of 8 GPUs, with live load"
    )
    parser.add_argument("--runs", type=_harness.whole, default=500)
    parser.add_argument("--model", type=Path, default=GRAPH_MODEL)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    model = load_model(options.model, GRAPH.kind, time.perf_counter)
    figures: dict[str, object] = {"nodes": options.nodes, "policy": model.name}
    figures |= _trees(model, options.nodes, options.runs)
    figures |= _decisions(options.model, options.nodes, options.runs)
    _harness.report(figures, as_json=options.json)
    return 0


def _unknown(job_id: JobId) -> JobSpec | None:
    return None


def _trees(model: CheckedModel, node_count: int, runs: int) -> dict[str, object]:
    """Time the embeddings: of everything, of one rack, of one node."""
    cluster = busy_engine(node_count, np.random.default_rng(0), Policies()).cluster
    asked = _Asked(model)
    tree = GraphTree(asked)
    tree.refresh(cluster, _unknown)
    every = np.arange(node_count)

    def refresh(nodes: int) -> None:
        cluster.loads.changed = ((1 << nodes) - 1) << NODES_PER_RACK * 3
        tree.refresh(cluster, _unknown)

    figures: dict[str, object] = {}
    for name, action in (
        ("scratch", lambda: tree.recompute(cluster, every)),
        ("rack", lambda: refresh(NODES_PER_RACK)),
        ("rack_model", lambda: model.ask(asked.last)),
        ("node", lambda: refresh(1)),
    ):
        seconds = _harness.timings_s(action, runs)
        for percent in (50, 99):
            key = f"{name}_p{percent}_ms"
            figures[key] = round(_harness.percentile(seconds, percent) * 1e3, 3)
    return figures


class _Asked(OnnxGraphModel):
    """A graph model that remembers its last question."""

    last: Mapping[str, NDArray[np.float32]]

    def ask(self, inputs: Mapping[str, NDArray[np.float32]]) -> Mapping[str, NDArray[np.float32]]:
        self.last = inputs
        return super().ask(inputs)


def _decisions(path: Path, node_count: int, runs: int) -> dict[str, object]:
    """Time JobQueued to Place; between two of them the job ends again."""
    rng = np.random.default_rng(0)
    score = load_onnx_graph(path, time.perf_counter)
    engine = busy_engine(node_count, rng, Policies(score=score, candidates=WideSearch()))
    _decide(engine, runs, 1, 1)
    seconds, cpu_s, counts = list[float](), list[float](), list[int]()
    for run in range(runs):
        is_gang = run % GANG_EVERY == 0
        gang = GANGS[run // GANG_EVERY % len(GANGS)]
        nodes, gpus = gang if is_gang else (1, gpus_of_one_node(rng))
        took_s, took_cpu_s, count = _decide(engine, run, nodes, gpus)
        seconds.append(took_s)
        cpu_s.append(took_cpu_s)
        counts.append(count)
    return {
        "decision_p50_ms": round(_harness.percentile(seconds, 50) * 1e3, 3),
        "decision_p99_ms": round(_harness.percentile(seconds, 99) * 1e3, 3),
        "decision_cpu_p50_ms": round(_harness.percentile(cpu_s, 50) * 1e3, 3),
        "decision_cpu_p99_ms": round(_harness.percentile(cpu_s, 99) * 1e3, 3),
        "candidates_mean": round(float(np.mean(counts)), 1),
        "fallbacks": engine.fallback_count,
    }


def _decide(engine: Engine, number: int, nodes: int, gpus: int) -> tuple[float, float, int]:
    """Place one job and end it.

    Returns:
        The seconds and the CPU seconds of the decision, and how many candidates were scored.
    """
    began_s, began_cpu_s = time.perf_counter(), time.thread_time()
    actions = engine.step(JobQueued(at_s=0.0, job=job(f"{number}", gpus=gpus, nodes=nodes)))
    took_cpu_s, took_s = time.thread_time() - began_cpu_s, time.perf_counter() - began_s
    place = next(action for action in actions if isinstance(action, Place))
    shares = shares_of(place.placement)
    engine.step(JobStarted(at_s=0.0, job_id=place.job_id, shares=shares))
    engine.step(JobEnded(at_s=0.0, job_id=place.job_id))
    return took_s, took_cpu_s, len(place.decision.get().candidates)


if __name__ == "__main__":
    sys.exit(main())
