"""How long a job selector takes to order a queue: features, model and sorting, one core.

The queue waits at a busy cluster; the model is an untrained selector of the default size, loaded as
the daemon loads it, or that of `--model`. `first` describes every job for the first time; `again`
is what a pass costs that finds the same jobs.
"""

import argparse
import tempfile
from pathlib import Path

import _harness
import numpy as np
import torch
from numpy.typing import NDArray

from roost_engine.plugins.plugins import Policies
from roost_engine.prediction.predictors import Predictors
from roost_engine.queue.selector import SelectorOrder
from roost_engine.queue.selector_features import SelectorFeatures
from roost_engine.testing.builders import EngineHarness, job, node
from roost_formats.models.order import load_onnx_selector
from roost_train.environments.decisions import Decision
from roost_train.networks.selector_net import SelectorNet
from roost_train.release.selector_release import write_selector


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=_harness.whole, default=128)
    parser.add_argument("--nodes", type=_harness.whole, default=128)
    parser.add_argument("--count", type=_harness.whole, default=300)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    harness = _busy(options.nodes, options.jobs)
    view = harness.engine.queue_view(1_000.0)
    seen = SelectorFeatures(Predictors()).observe(view)
    with tempfile.TemporaryDirectory() as folder:
        path = options.model or _untrained(Path(folder), seen.jobs, seen.cluster)
        model, model_bytes = load_onnx_selector(path), path.stat().st_size
        order = SelectorOrder(model, Predictors())
        begun = _harness.timings_s(lambda: SelectorOrder(model, Predictors()).rank(view), 20, 2)
        again = _harness.timings_s(lambda: order.rank(view), options.count)
        alone = _harness.timings_s(lambda: model.ranks(seen.jobs, seen.cluster), options.count)
    figures = {
        "jobs": len(view.jobs),
        "nodes": options.nodes,
        "model_p50_ms": round(1e3 * _harness.percentile(alone, 50), 4),
        "model_p99_ms": round(1e3 * _harness.percentile(alone, 99), 4),
        "again_p50_ms": round(1e3 * _harness.percentile(again, 50), 4),
        "again_p99_ms": round(1e3 * _harness.percentile(again, 99), 4),
        "first_p50_ms": round(1e3 * _harness.percentile(begun, 50), 4),
        "model_bytes": model_bytes,
    }
    _harness.report(figures, as_json=options.json)
    return 0


def _busy(node_count: int, job_count: int) -> EngineHarness:
    """Every node is held by a job of its own; jobs of all sizes wait."""
    harness = EngineHarness(
        [node(f"n{number}") for number in range(node_count)], policies=Policies()
    )
    harness.run(*(job(f"{number}", gpus=8) for number in range(1, node_count + 1)))
    sizes = np.random.default_rng(0).integers(1, 9, job_count).tolist()
    harness.queue(
        *(
            job(f"{100_000 + number}", gpus=size, user_id=number % 40)
            for number, size in enumerate(sizes)
        )
    )
    return harness


def _untrained(folder: Path, jobs: NDArray[np.float32], cluster: NDArray[np.float32]) -> Path:
    torch.manual_seed(0)
    mask = np.ones(len(jobs) + 1, dtype=np.bool_)
    return write_selector(SelectorNet(), [Decision(jobs, cluster, mask, 0)], {}, folder)


if __name__ == "__main__":
    raise SystemExit(main())
