"""Chooses among candidates by the score policy, or by the heuristic where that fails."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf
from typing import cast

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import NO_NODES
from roost_engine.domain.actions import Decision
from roost_engine.domain.errors import PolicyError
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobId, JobSpec, Placement
from roost_engine.domain.pair_correction import PairCorrection
from roost_engine.placement.candidates import Candidates, Listing
from roost_engine.placement.options import (
    GangOption,
    NodeOption,
    gang_features,
    node_features,
)
from roost_engine.policies.canary import CanaryScore
from roost_engine.policies.protocols import ClusterScore, RowwiseScore, ScorePolicy, ScoreQuestion
from roost_engine.policies.slots import FaultLog, reason_of
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.scoring.neighbour_cost import NeighbourAwareScore

_EXPLAINED_COUNT = 16  # candidates that a Decision keeps
_CACHE_LIMIT = 4096


class Scorer:
    """Chooses one of some candidates, and describes how the choice was made.

    Attributes:
        policy: scores the candidates.
        decision_count: placements chosen.
        fallback_count: those of them for which the heuristic answered instead of the policy.
    """

    def __init__(
        self,
        policy: ScorePolicy,
        faults: FaultLog | None = None,
        cluster: Cluster | None = None,
        spec_of: Callable[[JobId], JobSpec | None] = lambda job_id: None,
    ) -> None:
        """Make the slot.

        Args:
            policy: scores the candidates.
            faults: where faults are noted.
            cluster: for a policy that reads it.
            spec_of: for the same policy: what is known of a job; None: nothing.
        """
        self.policy, self._faults = policy, faults or FaultLog()
        self._cluster, self._spec_of = cluster, spec_of
        self.decision_count = self.fallback_count = 0
        self._heuristic = HeuristicScore()
        self._scores: dict[object, tuple[float, int]] = {}  # by key: the best score, its subset
        self._canary: Scorer | None = None
        active = policy
        if isinstance(policy, CanaryScore):
            active = policy.active
            self._canary = Scorer(policy.candidate, self._faults, cluster, spec_of)
        self._rowwise = active if isinstance(active, RowwiseScore) else None
        self._within = active if isinstance(active, ClusterScore) else None
        self._aware = active if isinstance(active, NeighbourAwareScore) else None

    def choose(
        self, candidates: Candidates, at_s: float, job: JobSpec | None = None
    ) -> tuple[Placement, Lazy[Decision]]:
        """Choose one of some candidates.

        Args:
            candidates: one or more.
            at_s: engine time.
            job: the job that would run there; its user decides between two score policies.

        Returns:
            The choice and, computed when it is read, how it was made; the decision's first
            candidate is the choice.
        """
        self.decision_count += 1
        if self._canary is not None and self._is_candidate(job):
            found = self._canary.choose(candidates, at_s, job)
            self.fallback_count += self._canary.take_fallbacks()
            return found
        if self._rowwise is not None and candidates.is_load_free:
            try:
                placement = self._best_by_option(self._rowwise, candidates)
            except Exception:  # noqa: BLE001  asked again below, where the fault is counted
                self._scores.clear()
            else:
                return placement, Lazy(partial(_score_later, self._rowwise, candidates, at_s))
        listing = candidates.listing()
        scores, policy, fallback = self._score(candidates, listing, job)
        best = int(np.argmax(scores))
        option, node = candidates.options[int(listing.option[best])], int(listing.node[best])
        placement = candidates.to_placement(option, node, int(listing.subset[best]))
        explain = partial(
            _decision,
            candidates,
            scores,
            at_s=at_s,
            policy=policy,
            fallback_reason=fallback,
            neighbour="" if fallback else self._neighbour(candidates, listing, job, best),
        )
        return placement, Lazy(explain)

    def _neighbour(
        self, candidates: Candidates, listing: Listing, job: JobSpec | None, best: int
    ) -> str:
        """Return what the neighbour that costs most is expected to cost, as the cluster is now."""
        if self._aware is None or self._cluster is None:
            return ""
        question = self._question(self._cluster, candidates, listing, job)
        try:
            found = self._aware.costliest(question, best)
        except Exception:  # noqa: BLE001  the placement is decided; only its explanation suffers
            return ""
        return "" if found is None else found.in_words

    @property
    def knows_neighbours(self) -> bool:
        """Whether `lost_frac` depends on the candidates."""
        return self._aware is not None

    def lost_frac(self, candidates: Candidates, job: JobSpec | None) -> float:
        """Return the share of its speed that neighbours cost a job at the best candidate.

        0 without a score of neighbours, or where it cannot answer.
        """
        if self._aware is None or self._cluster is None:
            return 0.0
        listing = candidates.listing()
        try:
            return self._aware.lost_frac(self._question(self._cluster, candidates, listing, job))
        except Exception:  # noqa: BLE001  counted when the candidates are scored
            return 0.0

    def _question(
        self, cluster: Cluster, candidates: Candidates, listing: Listing, job: JobSpec | None
    ) -> ScoreQuestion:
        return ScoreQuestion(
            candidates=candidates,
            listing=listing,
            features=candidates.features_of(listing),
            job=job,
            cluster=cluster,
            spec_of=self._spec_of,
        )

    def correct(self, pairs: Iterable[PairCorrection]) -> None:
        """Tell a score of neighbours what progress has taught; others read nothing of it."""
        if self._aware is not None:
            self._aware.corrections.apply(pairs)

    def _is_candidate(self, job: JobSpec | None) -> bool:
        assert isinstance(self.policy, CanaryScore)
        return job is not None and self.policy.is_candidate(job.user_id)

    def take_fallbacks(self) -> int:
        """Return how often the heuristic answered since this was last asked."""
        count, self.fallback_count = self.fallback_count, 0
        return count

    def _best_by_option(self, policy: RowwiseScore, candidates: Candidates) -> Placement:
        """Return the best candidate; ties go to the first in the listing of candidates.

        Every option is scored once and the score is cached: at most _CACHE_LIMIT numbers.
        """
        options, scores = candidates.options, self._scores
        if len(scores) + len(options) > _CACHE_LIMIT:
            scores.clear()
        if isinstance(options[0], GangOption):
            gangs = cast("Sequence[GangOption]", options)
            return candidates.to_placement(self._best_gang(policy, candidates, gangs), 0, 0)
        nodes = cast("Sequence[NodeOption]", options)
        if type(policy) is HeuristicScore:
            node, best = _best_node(nodes)
            return candidates.to_placement(best, node, self._score_of(policy, best)[1])
        scored = [self._score_of(policy, option) for option in nodes]
        best_score = max([score for score, _ in scored])
        # Of equals the lowest node is first: node 1 of the set 0b1010, of which 0b0010 is left.
        first, position = min(
            [
                (nodes[position].nodes & -nodes[position].nodes, position)
                for position, (score, _) in enumerate(scored)
                if score == best_score
            ]
        )
        node, subset = first.bit_length() - 1, scored[position][1]
        return candidates.to_placement(nodes[position], node, subset)

    def _score_of(self, policy: RowwiseScore, option: NodeOption) -> tuple[float, int]:
        """Return the best score of an option, and the position of the subset that has it."""
        found = self._scores.get(option.choice)
        if found is None:
            features = node_features([option])
            scores = _checked(policy, policy.score(features), len(features))
            subset = int(np.argmax(scores))
            found = self._scores[option.choice] = float(scores[subset]), subset
        return found

    def _best_gang(
        self, policy: RowwiseScore, candidates: Candidates, gangs: Sequence[GangOption]
    ) -> GangOption:
        """Return the best of some gangs; ties go to the one that was found first."""
        if len(gangs) == 1 and type(policy) is HeuristicScore:
            return gangs[0]  # whatever its score: the heuristic cannot fail
        scores, keys = self._scores, [gang.key for gang in gangs]
        missing = {key: gang for key, gang in zip(keys, gangs, strict=True) if key not in scores}
        if missing:
            features = gang_features(list(missing.values()), candidates.tables)
            found = _checked(policy, policy.score(features), len(features))
            scores.update(zip(missing, [(score, 0) for score in found.tolist()], strict=True))
        each = [scores[key][0] for key in keys]
        return gangs[each.index(max(each))]

    def _score(
        self, candidates: Candidates, listing: Listing, job: JobSpec | None
    ) -> tuple[NDArray[np.float32], str, str]:
        policy, features = self.policy, candidates.features_of(listing)
        try:
            if self._within is None or self._cluster is None:
                scores = policy.score(features)
            else:
                question = self._question(self._cluster, candidates, listing, job)
                scores = self._within.score_within(question)
            return _checked(policy, scores, len(features)), policy.name, ""
        except Exception as error:  # noqa: BLE001  whatever a policy raises must not stop a pass
            self.fallback_count += 1
            self._faults.counts["score"] += 1
            return self._heuristic.score(features), self._heuristic.name, reason_of(error)


def _checked(policy: ScorePolicy, scores: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Refuse what is not one finite number a candidate."""
    if np.shape(scores) != (count,) or not np.isfinite(scores).all():
        raise PolicyError(f"{policy.name} answered {np.shape(scores)}, or not finite")
    if not isinstance(scores, np.ndarray) or scores.dtype.kind != "f":
        raise PolicyError(f"{policy.name} answered {type(scores).__name__}, not an array of floats")
    return scores


def _best_node(options: Sequence[NodeOption]) -> tuple[int, NodeOption]:
    """Return the single node that the heuristic scores best while no load is known.

    The heuristic's score is known of every choice. Ties go to the lower node index.
    """
    best_score, first, best = -inf, NO_NODES, options[0]
    for option in options:
        score = option.choice.best_static_score
        if score >= best_score:
            lowest = option.nodes & -option.nodes  # of 0b1010: 0b0010
            if score > best_score or lowest < first:
                best_score, first, best = score, lowest, option
    return first.bit_length() - 1, best


def shortlist(nodes: NDArray[np.int64], order: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the candidates worth storing: the best of each node, then the best of the others.

    Args:
        nodes: [candidate], the first node of each.
        order: [candidate], best first.
        count: how many to keep, at least as many as there are nodes.

    Returns:
        [at most count], best first.
    """
    if len(order) <= count:
        return order
    _, first_of_node = np.unique(nodes[order], return_index=True)
    keep = np.zeros(len(order), dtype=np.bool_)
    keep[first_of_node] = True
    keep[np.flatnonzero(~keep)[: count - len(first_of_node)]] = True
    return order[keep]


def _score_later(policy: RowwiseScore, candidates: Candidates, at_s: float) -> Decision:
    """Describe a decision for which each option was scored once.

    The heuristic's scores stand in for those of a policy that fails now: the placement is decided.
    """
    features = candidates.features
    try:
        scores, fault = _checked(policy, policy.score(features), len(features)), ""
    except Exception as error:  # noqa: BLE001  an explanation is read outside of steps
        scores, fault = HeuristicScore().score(features), reason_of(error)
    return _decision(candidates, scores, at_s=at_s, policy=policy.name, fallback_reason=fault)


def _decision(
    candidates: Candidates,
    scores: NDArray[np.float32],
    *,
    at_s: float,
    policy: str,
    fallback_reason: str = "",
    neighbour: str = "",
) -> Decision:
    """Describe a decision.

    Args:
        candidates: all that were scored; they keep what a policy saw of them.
        scores: float32 [candidate].
        at_s: engine time of the decision.
        policy: name of the policy that scored them.
        fallback_reason: why that was the heuristic, if it was not meant to be.
        neighbour: see Decision.
    """
    listing = candidates.listing()
    order = shortlist(listing.node, np.argsort(-scores, kind="stable"), _EXPLAINED_COUNT)
    found = candidates.explain(listing, order)
    return Decision(
        at_s=at_s,
        candidates=found.placements,
        features=candidates.features_of(listing)[order],
        scores=scores[order],
        link_scores=found.link_scores,
        best_link_score=found.best_link_score,
        exclusions=candidates.exclusions,
        free_before=found.free_shares,
        policy=policy,
        fallback_reason=fallback_reason,
        neighbour=neighbour,
    )
