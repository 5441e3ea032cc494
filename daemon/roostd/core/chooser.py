"""Which of the candidates: asks the score policy, and the heuristic where that cannot answer."""

from collections.abc import Sequence
from functools import partial
from math import inf

import numpy as np
from numpy.typing import NDArray

from roostd.core.actions import Decision
from roostd.core.candidates import Candidates, quiet_features
from roostd.core.cluster import Cluster
from roostd.core.errors import PolicyError
from roostd.core.features import HeuristicScore
from roostd.core.links import SubsetChoice, indices_of
from roostd.core.model import NodeName, NodeShare, Placement
from roostd.core.policy import RowwiseScore, ScorePolicy

_EXPLAINED_COUNT = 16  # candidates that a Decision keeps
_TOP_LIMIT = 4096


class Chooser:
    """Scores candidates and tells how it came about."""

    def __init__(self, policy: ScorePolicy) -> None:
        self.policy = policy
        self.decision_count = self.fallback_count = 0
        self._heuristic = HeuristicScore()
        self._rowwise = policy if isinstance(policy, RowwiseScore) else None
        self._tops: dict[SubsetChoice, tuple[int, float]] = {}  # position of the best, its score

    def choose(
        self, cluster: Cluster, candidates: Candidates, at_s: float
    ) -> tuple[Placement, Decision]:
        """Choose one of some candidates.

        Returns:
            The choice, and how it came about: its first candidate is the choice.
        """
        self.decision_count += 1
        if candidates.choices and self._rowwise is not None:
            row, choice, position = self._best_quiet(self._rowwise, candidates.choices)
            indices = indices_of(int(choice.masks[position]))
            placement = Placement((cluster.names[row],), indices, candidates.shape)
            explain = partial(self._explain_quiet, self._rowwise, candidates, cluster.names, at_s)
            return placement, Decision.later(explain, at_s=at_s)
        scores, policy, fallback = self._score(candidates.features)
        order = candidates.shortlist(np.argsort(-scores, kind="stable"), _EXPLAINED_COUNT)
        placements = candidates.placements(order, cluster.names)
        decision = Decision(
            at_s=at_s,
            candidates=placements,
            features=candidates.features[order],
            scores=scores[order],
            link_scores=candidates.link_scores[order],
            best_link_score=candidates.best_link_score(int(order[0]), cluster),
            exclusions=candidates.exclusions,
            free_before=candidates.free_shares(int(order[0]), cluster),
            policy=policy,
            fallback_reason=fallback,
        )
        return placements[0], decision

    def _best_quiet(
        self, policy: RowwiseScore, choices: Sequence[tuple[int, SubsetChoice]]
    ) -> tuple[int, SubsetChoice, int]:
        """The row, its choice and the position there of the best candidate; ties to the first."""
        best_score = -inf
        for row, choice in choices:
            found = self._tops.get(choice)
            if found is None:
                if len(self._tops) >= _TOP_LIMIT:
                    self._tops.clear()
                scores = policy.score(quiet_features([choice]))
                position = int(np.argmax(scores))
                found = self._tops[choice] = position, float(scores[position])
            if found[1] > best_score:
                best, best_score = (row, choice, found[0]), found[1]
        return best

    def _explain_quiet(
        self, policy: RowwiseScore, candidates: Candidates, names: Sequence[NodeName], at_s: float
    ) -> Decision:
        """Spell out what led to a choice, of what does not change after it."""
        scores = policy.score(candidates.features)
        order = candidates.shortlist(np.argsort(-scores, kind="stable"), _EXPLAINED_COUNT)
        row = int(candidates.rows[order[0], 0])
        choice = dict(candidates.choices)[row]
        return Decision(
            at_s=at_s,
            candidates=candidates.placements(order, names),
            features=candidates.features[order],
            scores=scores[order],
            link_scores=candidates.link_scores[order],
            best_link_score=choice.ideal_link_score,
            exclusions=candidates.exclusions,
            free_before=(NodeShare(names[row], indices_of(choice.free_mask)),),
            policy=policy.name,
        )

    def _score(self, features: NDArray[np.float32]) -> tuple[NDArray[np.float32], str, str]:
        policy = self.policy
        try:
            scores = policy.score(features)
            if scores.shape != (len(features),) or not np.isfinite(scores).all():
                raise PolicyError(f"{policy.name} answered {scores.shape}, or not finite")
        except PolicyError as error:
            self.fallback_count += 1
            return self._heuristic.score(features), self._heuristic.name, str(error)
        return scores, policy.name, ""
