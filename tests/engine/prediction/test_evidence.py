"""evidence: no alarm while the promise holds, an alarm soon after it is broken."""

import numpy as np
import pytest

from roost_engine.prediction.evidence import LIMIT, Evidence


def test_one_job_by_hand() -> None:
    start = Evidence(predicted_frac=0.4, margin_frac=0.1)
    late = start.after(1.0, is_canary=False)
    assert late.fortunes == pytest.approx((1.1, 1.25, 1.5))
    assert late.value == pytest.approx((1.1 + 1.25 + 1.5) / 3)
    early = start.after(0.0, is_canary=False)
    assert early.fortunes == pytest.approx((0.9, 0.75, 0.5))
    assert (late.observed_frac, early.observed_frac, start.observed_frac) == (1.0, 0.0, None)


def test_without_a_prediction_jobs_are_only_counted() -> None:
    found = Evidence().after(1.0, is_canary=False)
    assert (found.job_count, found.value) == (1, 1.0)


@pytest.mark.parametrize("mean", [0.2, 0.5, 0.9])
def test_a_promise_that_is_kept_is_hardly_ever_an_alarm(mean: float) -> None:
    alarms = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        evidence = Evidence(predicted_frac=mean, margin_frac=0.05)
        for lost in random.beta(2 * mean, 2 * (1 - mean), size=300).tolist():
            evidence = evidence.after(lost, is_canary=False)
            if evidence.is_conclusive:
                alarms += 1
                break
    assert alarms <= 4


def test_a_broken_promise_is_an_alarm_within_some_dozen_jobs() -> None:
    random, evidence = np.random.default_rng(1), Evidence(predicted_frac=0.3)
    for lost in random.beta(7, 3, size=60).tolist():
        evidence = evidence.after(lost, is_canary=False)
    assert evidence.is_conclusive
    assert evidence.value >= LIMIT


def test_good_months_are_not_trusted_for_ever() -> None:
    evidence = Evidence(predicted_frac=0.5)
    for _ in range(10_000):
        evidence = evidence.after(0.0, is_canary=False)
    for _ in range(60):
        evidence = evidence.after(0.95, is_canary=False)
    assert evidence.is_conclusive


def test_a_busy_day_for_all_is_no_evidence_against_a_canary() -> None:
    random, evidence = np.random.default_rng(1), Evidence(predicted_frac=0.1)
    for lost in random.beta(9, 1, size=600).tolist():
        evidence = evidence.after_other(lost).after(lost, is_canary=True)
    assert not evidence.is_conclusive
    assert evidence.other_frac == pytest.approx(evidence.observed_frac)
    assert (evidence.other_count, len(evidence.others)) == (600, 50)


def test_a_canary_that_fares_worse_than_other_users_is_taken_out() -> None:
    evidence = Evidence(predicted_frac=0.1, margin_frac=0.0)
    for count in range(40):
        evidence = evidence.after_other(0.3).after(0.9, is_canary=True)
        assert count or evidence.value > 1.0
    assert evidence.is_conclusive


def test_extreme_promises_stay_finite() -> None:
    for promise in (0.0, 1.0, 5.0):
        evidence = Evidence(predicted_frac=promise, margin_frac=0.0)
        for lost in (0.0, 1.0) * 200:
            evidence = evidence.after(lost, is_canary=False)
        assert np.isfinite(evidence.value)
