"""The terms of a promotion: what speaks against it, and what a promoted policy is held to."""

from roost_engine.prediction.evidence import Evidence
from roost_formats.journal.evaluation import Evaluation
from roostd.config.config import PoliciesSection
from roostd.ops.promotions import StoredEvaluation


def promise(stored: StoredEvaluation | None, rules: PoliciesSection) -> Evidence:
    """Return what a promoted policy is held to; it is rolled back where it falls behind.

    Args:
        stored: its comparison with the policy that decides; None: there is none.
        rules: by how much it may be worse.
    """
    if stored is None:
        return Evidence(margin_frac=rules.loss_margin_frac)
    active, candidate = stored.found.active, stored.found.candidate
    p99_s = min(candidate.p99_jct_s, active.p99_jct_s)
    limit_s = max(rules.wait_limit_p99s * p99_s, rules.wait_limit_s)
    return Evidence(
        # A policy that was promoted by force is held to what the active one promises.
        predicted_frac=min(candidate.lost_frac, active.lost_frac),
        predicted_gap=min(candidate.lost_frac - active.lost_frac, 0.0),
        wait_limit_s=limit_s,
        margin_frac=rules.loss_margin_frac,
    )


def refusal_of(found: Evaluation, rules: PoliciesSection) -> str:
    """Return why a comparison speaks against a promotion, with its figures; "" if it does not.

    The upper ends of the intervals count: the policy must be shown not to be worse.
    """
    if found.job_count < rules.min_job_count:
        return f"only {found.job_count} jobs could be compared, want {rules.min_job_count}"
    faults = [
        f"{what} completion time is {ratio.value:.3f} of the present one, at 95 % between"
        f" {ratio.low:.3f} and {ratio.high:.3f}: it may be up to {ratio.high - 1.0:.1%} longer,"
        f" {margin:.1%} is allowed"
        for what, ratio, margin in (
            ("average", found.avg_ratio, rules.average_margin_frac),
            ("p99", found.p99_ratio, rules.p99_margin_frac),
        )
        if not ratio.high <= 1.0 + margin
    ]
    return "; ".join(faults)


def figures_of(found: Evaluation) -> dict[str, object]:
    """Return the figures of a comparison for the audit log."""
    return {
        "job_count": found.job_count,
        "avg_ratio": found.avg_ratio.value,
        "avg_ratio_high": found.avg_ratio.high,
        "p99_ratio": found.p99_ratio.value,
        "p99_ratio_high": found.p99_ratio.high,
    }
