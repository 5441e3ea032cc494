"""Which of the candidates: asks the score policy, and the heuristic where that cannot answer."""

import numpy as np
from numpy.typing import NDArray

from roostd.core.actions import Decision
from roostd.core.candidates import Candidates
from roostd.core.cluster import Cluster
from roostd.core.errors import PolicyError
from roostd.core.features import HeuristicScore
from roostd.core.policy import ScorePolicy

_EXPLAINED_COUNT = 16  # candidates that a Decision keeps


class Chooser:
    """Scores candidates and tells how it came about."""

    def __init__(self, policy: ScorePolicy) -> None:
        self.policy = policy
        self.decision_count = self.fallback_count = 0
        self._heuristic = HeuristicScore()

    def decide(self, cluster: Cluster, candidates: Candidates, at_s: float) -> Decision:
        """Rank candidates; the first of the answer is the choice."""
        scores, policy, fallback = self._score(candidates.features)
        order = candidates.shortlist(np.argsort(-scores, kind="stable"), _EXPLAINED_COUNT)
        self.decision_count += 1
        return Decision(
            at_s=at_s,
            candidates=candidates.placements(order, cluster),
            features=candidates.features[order],
            scores=scores[order],
            link_scores=candidates.link_scores[order],
            best_link_score=candidates.best_link_score(int(order[0]), cluster),
            exclusions=candidates.exclusions,
            free_before=candidates.free_shares(int(order[0]), cluster),
            policy=policy,
            fallback_reason=fallback,
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
