"""Errors of simple predictors of run times on a real trace with users, and on generated jobs.

    python benchmarks/generated_history.py TRACE [--seeds 6] [--json]

TRACE is Helios' table of June 2020 with its users, on which the generator's repetition was fitted,
or a site's own. Generated are as many jobs as it has. The error is the mean of |ln(predicted /
true)| in order of submission; a job is known to the predictors once it has ended.
"""

import argparse
from pathlib import Path

import _harness

from roost_sim.traces.fitted_histories import HELIOS_USERS
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.formats import load_trace
from roost_sim.traces.generator import generate
from roost_sim.traces.histories import generate_history
from roost_sim.traces.repetition import prediction_errors


def figures(path: Path, seed_count: int) -> dict[str, object]:
    """Return the errors on the trace, on each generated one, and the largest relative gap."""
    trace = load_trace(path).trace
    real = prediction_errors(trace)
    made = [
        prediction_errors(generate_history(HELIOS, HELIOS_USERS, len(trace), seed))
        for seed in range(seed_count)
    ]
    mean = {name: sum(errors[name] for errors in made) / seed_count for name in real}
    return {
        "jobs": len(trace),
        "trace": real,
        "generated_mean": mean,
        "generated_by_seed": made,
        "worst_gap_of_mean_frac": max(abs(mean[name] / real[name] - 1.0) for name in real),
        "worst_gap_of_a_seed_frac": max(
            abs(errors[name] / real[name] - 1.0) for errors in made for name in real
        ),
        "independent_jobs": prediction_errors(generate(HELIOS, len(trace), 0)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, help="with users")
    parser.add_argument("--seeds", type=_harness.whole, default=6, help="how many generated traces")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    _harness.report(figures(arguments.trace, arguments.seeds), as_json=arguments.json)


if __name__ == "__main__":
    main()
