"""How well a student keeps the order of its teacher."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLEAR_GAP = 1e-3  # score gap from which the student must choose as the teacher does
SAME = 1e-6  # score gap up to which candidates are equals: float32's step at a score of six


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Over groups of candidates.

    Attributes:
        group_count: how many were judged.
        choice_frac: groups whose chosen candidate is one of the teacher's best.
        clear_count: groups where the teacher's best leads by CLEAR_GAP.
        clear_choice_frac: as choice_frac, among those groups; 1 where there are none.
        pair_frac: neighbours in the teacher's order that keep their order.
        worst_regret: most that a choice lost, in teacher's points.
        worst_error: largest difference of a score.
    """

    group_count: int
    choice_frac: float
    clear_count: int
    clear_choice_frac: float
    pair_frac: float
    worst_regret: float
    worst_error: float


def compare(teacher: NDArray[np.float64], student: NDArray[np.float32]) -> Agreement:
    """Compare scores.

    Args:
        teacher: [group, candidate], exact.
        student: [group, candidate].

    Raises:
        ValueError: fewer than two candidates a group.
    """
    if teacher.shape[1] < 2:
        raise ValueError("a group needs two candidates to have an order")
    order = np.argsort(teacher, axis=1)
    ranked = np.take_along_axis(teacher, order, axis=1)
    gaps = np.diff(ranked, axis=1)
    kept = np.diff(np.take_along_axis(student, order, axis=1).astype(np.float64), axis=1) > 0
    counted = gaps > SAME
    chosen = np.take_along_axis(teacher, student.argmax(axis=1)[:, None], axis=1)[:, 0]
    regret = ranked[:, -1] - chosen
    right, clear = regret <= SAME, gaps[:, -1] > CLEAR_GAP
    return Agreement(
        group_count=len(teacher),
        choice_frac=float(right.mean()),
        clear_count=int(clear.sum()),
        clear_choice_frac=float(right[clear].mean()) if clear.any() else 1.0,
        pair_frac=float(kept[counted].mean()) if counted.any() else 1.0,
        worst_regret=float(regret.max()),
        worst_error=float(np.abs(student - teacher).max()),
    )


def merge(parts: list[Agreement]) -> Agreement:
    """Agreement over several sets; each share is weighted by the number of its groups."""
    counts = [part.group_count for part in parts]
    clear_counts = [part.clear_count for part in parts]

    def mean(values: list[float], weights: list[int]) -> float:
        return float(np.average(values, weights=weights)) if any(weights) else 1.0

    return Agreement(
        group_count=sum(counts),
        choice_frac=mean([part.choice_frac for part in parts], counts),
        clear_count=sum(clear_counts),
        # A set of near ties alone has no clear choice, and counts as neither right nor wrong.
        clear_choice_frac=mean([part.clear_choice_frac for part in parts], clear_counts),
        pair_frac=mean([part.pair_frac for part in parts], counts),
        worst_regret=max(part.worst_regret for part in parts),
        worst_error=max(part.worst_error for part in parts),
    )
