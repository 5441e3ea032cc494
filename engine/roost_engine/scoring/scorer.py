"""Which of the candidates: asks the score policy, and the heuristic where that cannot answer."""

from collections.abc import Sequence
from functools import partial
from math import inf

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import HeuristicScore
from roost_engine.cluster.link_table import LinkTable, SubsetChoice, indices_of
from roost_engine.domain.actions import Decision
from roost_engine.domain.errors import PolicyError
from roost_engine.domain.model import NodeName, NodeShare, Placement
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.quiet_gangs import Part, QuietGang, quiet_gang_features
from roost_engine.placement.quiet_nodes import QuietChoices, quiet_features
from roost_engine.policies import RowwiseScore, ScorePolicy

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
        self._gang_scores: dict[tuple[tuple[Part, ...], bool], float] = {}  # parts, in one rack

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
        if candidates.gangs and self._rowwise is not None:
            gang = self._best_gang(self._rowwise, cluster.tables, candidates.gangs)
            nodes = tuple(sorted([cluster.names[row] for row in gang.rows]))
            placement = Placement(nodes, indices_of(gang.mask), candidates.shape)
            explain = partial(self._explain_gang, self._rowwise, candidates, cluster, at_s)
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
        self, policy: RowwiseScore, choices: QuietChoices
    ) -> tuple[int, SubsetChoice, int]:
        """The row, its choice and the position there of the best candidate; ties to the first."""
        best_score, best_row = -inf, 0
        for rows, choice in choices:
            found = self._tops.get(choice)
            if found is None:
                if len(self._tops) >= _TOP_LIMIT:
                    self._tops.clear()
                scores = policy.score(quiet_features([choice]))
                position = int(np.argmax(scores))
                found = self._tops[choice] = position, float(scores[position])
            row = (rows & -rows).bit_length() - 1
            if found[1] > best_score or (found[1] == best_score and row < best_row):
                best, best_score, best_row = (row, choice, found[0]), found[1], row
        return best

    def _best_gang(
        self, policy: RowwiseScore, tables: Sequence[LinkTable], gangs: Sequence[QuietGang]
    ) -> QuietGang:
        """The best candidate; ties to the first."""
        keys = [(gang.parts, gang.is_in_one_rack) for gang in gangs]
        if len(self._gang_scores) + len(keys) > _TOP_LIMIT:
            self._gang_scores.clear()
        scores = self._gang_scores
        if new := [gang for gang, key in zip(gangs, keys, strict=True) if key not in scores]:
            features, _ = quiet_gang_features(tables, new)
            for gang, score in zip(new, policy.score(features).tolist(), strict=True):
                scores[gang.parts, gang.is_in_one_rack] = score
        found = [scores[key] for key in keys]
        return gangs[found.index(max(found))]

    def _explain_gang(
        self, policy: RowwiseScore, candidates: Candidates, cluster: Cluster, at_s: float
    ) -> Decision:
        """As _explain_quiet; of the cluster only what stays as it is: names and tables."""
        scores, names = policy.score(candidates.features), cluster.names
        order = candidates.shortlist(np.argsort(-scores, kind="stable"), _EXPLAINED_COUNT)
        best = candidates.gangs[int(order[0])]
        size, shares, ideal = candidates.shape.gpus_per_node, [], 0
        for row, (kind, free, _) in zip(best.rows, best.parts, strict=True):
            table = cluster.tables[kind]
            ideal += table.best_score(table.full_mask, size)
            shares.append(NodeShare(names[row], indices_of(free)))
        return Decision(
            at_s=at_s,
            candidates=candidates.placements(order, names),
            features=candidates.features[order],
            scores=scores[order],
            link_scores=candidates.link_scores[order],
            best_link_score=ideal,
            exclusions=candidates.exclusions,
            free_before=tuple(shares),
            policy=policy.name,
        )

    def _explain_quiet(
        self, policy: RowwiseScore, candidates: Candidates, names: Sequence[NodeName], at_s: float
    ) -> Decision:
        """Spell out what led to a choice, of what does not change after it."""
        scores = policy.score(candidates.features)
        order = candidates.shortlist(np.argsort(-scores, kind="stable"), _EXPLAINED_COUNT)
        row = int(candidates.rows[order[0], 0])
        choice = next(choice for rows, choice in candidates.choices if rows >> row & 1)
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
