"""The JSON object of one run, which `run` and `compare` print."""

from typing import TypeAlias

from roost_sim.figures.sharing import LIMITS_FRAC
from roost_sim.runs.simulation import Report

Figure: TypeAlias = float | int | str | None


def run_document(policy_name: str, seed: int, report: Report) -> dict[str, Figure]:
    """Return the JSON object of one run. Page: docs/simulator/README.md."""
    figures = report.metrics
    found: dict[str, Figure] = {
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
        "comm_share": figures.comm_share,
        "occupancy": figures.occupancy,
        "preemptions": figures.preemptions,
        "decisions": figures.decisions,
        "decision_p99_ms": figures.decision_p99_ms,
        "bound_avg_jct_s": figures.bound_avg_jct_s,
        "wall_s": report.wall_s,
        "regime": report.regime.value,
        "avg_comm_s": figures.avg_comm_s,
        "occupancy_loss": figures.occupancy_loss,
        "fairness_mean": None if figures.fairness is None else figures.fairness.mean,
        "fairness_max": None if figures.fairness is None else figures.fairness.most,
        "fairness_jain": None if figures.fairness is None else figures.fairness.jain,
        "decision_p50_ms": figures.decision_p50_ms,
        "placed_node": figures.tier_counts[0],
        "placed_rack": figures.tier_counts[1],
        "placed_across_racks": figures.tier_counts[2],
        "mechanism": report.mechanism.value,
        "large_p99_queue_s": figures.large_p99_queue_s,
        "pins_per_job": figures.pins_per_job,
        "updates_per_s": figures.updates_per_s,
        "standing_pins": figures.standing_pins,
        "longest_queue_s": figures.longest_queue_s,
        "worst_user_slowdown": None if figures.users is None else figures.users.worst,
        "user_jain": None if figures.users is None else figures.users.jain,
    }
    return found | _sharing(report)


def _sharing(report: Report) -> dict[str, Figure]:
    """Return the fields of a run in which jobs may share GPUs; none of others."""
    found = report.metrics.sharing
    if found is None:
        return {}
    slowed = {
        f"slowed_{limit:.0%}_frac".replace("%", "pct"): frac
        for limit, frac in zip(LIMITS_FRAC, found.slowed_frac, strict=True)
    }
    return {
        "sharing_jobs": found.jobs,
        "sharing_hours": found.hours,
        "sharing_speed_frac": found.mean_speed_frac,
        **slowed,
    }
