"""The figures of one run as the JSON object that `run` and `compare` print."""

from roost_sim.simulation import Report


def run_document(policy_name: str, seed: int, report: Report) -> dict[str, object]:
    """The JSON object of one run. Page: docs/simulator/README.md."""
    figures = report.metrics
    return {
        "policy": policy_name,
        "seed": seed,
        "jobs": figures.jobs,
        "completed": figures.completed,
        "avg_jct_s": figures.avg_jct_s,
        "median_jct_s": figures.median_jct_s,
        "p95_jct_s": figures.p95_jct_s,
        "p99_jct_s": figures.p99_jct_s,
        "makespan_s": figures.makespan_s,
        "avg_queue_s": figures.avg_queue_s,
        "comm_share": None,  # FullSpeed knows no communication
        "occupancy": figures.occupancy,
        "preemptions": 0,  # the engine has no such action
        "decisions": figures.decisions,
        "decision_p99_ms": figures.decision_p99_ms,
        "bound_avg_jct_s": figures.bound_avg_jct_s,
        "wall_s": report.wall_s,
    }
