"""The terms of a promotion: what speaks against it, and what the policy is then held to."""

from dataclasses import replace

from tests.daemon.app.promotion.test_policy_desk import evaluation

from roost_engine.policies.canary import Slot
from roost_engine.prediction.evidence import Evidence
from roost_formats.journal.evaluation import Ratio
from roostd.app.promotion.promotion_terms import promise, refusal_of
from roostd.config.config import PoliciesSection
from roostd.ops.promotions import StoredEvaluation


def test_equal_policies_may_take_over_from_each_other() -> None:
    same = Ratio(value=1.0, low=1.0, high=1.0)
    assert refusal_of(evaluation(same, same), PoliciesSection()) == ""


def test_a_policy_is_held_to_the_better_of_the_two() -> None:
    found = evaluation()
    stored = StoredEvaluation(
        slot=Slot.ORDER, policy="order:las", against="order:priority", at_epoch_s=0.0, found=found
    )
    held = promise(stored, PoliciesSection(loss_margin_frac=0.05))
    assert (held.predicted_frac, held.margin_frac) == (0.3, 0.05)
    assert held.predicted_gap == found.candidate.lost_frac - found.active.lost_frac
    assert held.wait_limit_s == 3.0 * found.candidate.p99_jct_s


def test_short_waits_are_no_reason_to_roll_back() -> None:
    quick = replace(evaluation().candidate, p99_jct_s=1.0)
    stored = StoredEvaluation(
        slot=Slot.ORDER,
        policy="order:las",
        against="order:priority",
        at_epoch_s=0.0,
        found=replace(evaluation(), candidate=quick),
    )
    assert promise(stored, PoliciesSection()).wait_limit_s == 600.0
    assert promise(stored, PoliciesSection(wait_limit_s=2.0)).wait_limit_s == 3.0
    impatient = PoliciesSection(wait_limit_s=2.0, wait_limit_p99s=2.5)
    assert promise(stored, impatient).wait_limit_s == 2.5


def test_a_policy_that_was_never_compared_promises_nothing() -> None:
    rules = PoliciesSection(loss_margin_frac=0.05)
    assert promise(None, rules) == Evidence(margin_frac=0.05)
