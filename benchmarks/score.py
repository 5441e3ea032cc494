"""What one answer of the shipped score model costs, beside the heuristic's."""

import argparse
import sys
from functools import partial

import _harness
import numpy as np

from roost_engine.cluster.features import COLUMNS
from roost_engine.scoring.heuristic import HeuristicScore
from roost_formats.models.score import load_score_policy

CANDIDATE_COUNTS = (1, 16, 64, 512)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=_harness.whole, default=5000)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    policy, fault = load_score_policy("builtin")
    if fault is not None:
        print(f"score.py: {fault}", file=sys.stderr)
        return 2
    figures: dict[str, object] = {"policy": policy.name}
    rng = np.random.default_rng(0)
    for count in CANDIDATE_COUNTS:
        features = rng.random((count, len(COLUMNS))).astype(np.float32)
        for name, scorer in (("onnx", policy), ("heuristic", HeuristicScore())):
            seconds = _harness.timings_s(partial(scorer.score, features), options.calls)
            for percent in (50, 99):
                key = f"{name}_{count}_p{percent}_us"
                figures[key] = round(_harness.percentile(seconds, percent) * 1e6, 1)
    _harness.report(figures, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
