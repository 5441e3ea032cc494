import numpy as np
import pytest

from roost_train.distillation.agreement import Agreement, compare, merge


def test_same_order_is_full_agreement() -> None:
    teacher = np.array([[0.0, 1.0, 2.0], [5.0, 3.0, 4.0]])
    agreement = compare(teacher, (teacher + 1).astype(np.float32))
    assert agreement == Agreement(
        group_count=2,
        choice_frac=1.0,
        clear_count=2,
        clear_choice_frac=1.0,
        pair_frac=1.0,
        worst_regret=0.0,
        worst_error=1.0,
    )


def test_counts_a_wrong_choice_and_what_it_costs() -> None:
    teacher = np.array([[0.0, 1.0, 1.5], [0.0, 1.0, 1.5]])
    student = np.array([[0.0, 1.0, 1.5], [0.0, 1.5, 1.0]], dtype=np.float32)
    agreement = compare(teacher, student)
    assert agreement.choice_frac == 0.5
    assert agreement.clear_choice_frac == 0.5
    assert agreement.pair_frac == 0.75
    assert agreement.worst_regret == 0.5


def test_equals_may_be_chosen_either_way() -> None:
    teacher = np.array([[1.0, 1.0, 0.0]])
    agreement = compare(teacher, np.array([[0.9, 1.1, 0.0]], dtype=np.float32))
    assert agreement.choice_frac == agreement.pair_frac == 1.0


def test_small_lead_lost_is_wrong_but_not_clearly() -> None:
    teacher = np.array([[0.0, 1e-4], [0.0, 1.0]])
    agreement = compare(teacher, np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32))
    assert agreement.choice_frac == 0.5
    assert agreement.clear_choice_frac == 1.0


def test_lone_candidate_has_no_order() -> None:
    with pytest.raises(ValueError, match="two candidates"):
        compare(np.zeros((3, 1)), np.zeros((3, 1), dtype=np.float32))


def test_merging_weighs_by_groups() -> None:
    good = compare(np.array([[0.0, 1.0]] * 3), np.array([[0.0, 1.0]] * 3, dtype=np.float32))
    bad = compare(np.array([[0.0, 1.0]]), np.array([[3.0, 1.0]], dtype=np.float32))
    merged = merge([good, bad])
    assert merged.group_count == 4
    assert merged.choice_frac == merged.pair_frac == 0.75
    assert merged.worst_regret == 1.0
    assert merged.worst_error == 3.0


def test_near_ties_do_not_improve_the_share_of_clear_choices() -> None:
    wrong = compare(np.array([[0.0, 1.0]]), np.array([[3.0, 1.0]], dtype=np.float32))
    ties = compare(np.array([[0.0, 1e-4]] * 9), np.array([[0.0, 1.0]] * 9, dtype=np.float32))
    assert (ties.clear_count, merge([wrong, ties]).clear_count) == (0, 1)
    assert merge([wrong, ties]).clear_choice_frac == 0.0
    assert merge([ties, ties]).clear_choice_frac == 1.0
