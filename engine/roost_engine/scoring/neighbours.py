"""The neighbours score: the heuristic's score less what jobs on the same nodes cost each other.

    score = heuristic(columns) - PRICE · (GPUs · loss(newcomer) + Σ GPUs · loss(joined)) / GPUs

A loss is a predicted mean log slowdown, weighed by the GPUs of the job that has it, per GPU of the
newcomer. Where nothing is predicted to be lost, the order is the heuristic's. The jobs of a node
that the newcomer joins are asked about as one, their vectors averaged with their GPUs as weights:
exact for a model whose cost is a product of the two jobs' loads. A gang waits for its slowest
node, so the newcomer's loss is the largest of its nodes. Page: docs/interference.md.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.errors import PolicyError
from roost_engine.domain.job_kind import kind_of
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.policies.neighbour_losses import NeighbourLoss
from roost_engine.policies.protocols import ScoreQuestion
from roost_engine.scoring.graph_candidates import Parts
from roost_engine.scoring.graph_jobs import Communicates
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.scoring.interference import Interference
from roost_engine.scoring.neighbour_corrections import Corrections
from roost_engine.scoring.neighbour_cost import NeighbourCost, above
from roost_engine.scoring.neighbour_levels import LEVELS, others_count
from roost_engine.scoring.neighbour_predictor import NeighbourPredictor
from roost_engine.scoring.neighbourhood import Neighbourhood, Newcomers, Residents

Array = NDArray[np.float32]

PRICE = 2.0  # heuristic points for a log slowdown of 1 of as many GPUs as the newcomer has
_ROUNDED_TO = 1e-5
# A pair that turned out bad is made only where every other place has one too: more than all
# heuristic points together.
_BAD_PAIR = 20.0
_ALL: NDArray[np.int64] | slice = slice(None)


class _PairLoss(NamedTuple):
    """What a newcomer and one neighbour lose by each other.

    Attributes:
        total: log slowdowns of both, each weighed by its job's GPUs.
        neighbour: the job that is there.
        lost, spread: the newcomer's log slowdown, mean and standard deviation.
        caused: mean log slowdown of the neighbour.
    """

    total: float
    neighbour: JobId
    lost: float
    spread: float
    caused: float


class NeighbourScore:
    """A policies.ClusterScore; see the module.

    Args:
        interference: predicts slowdowns.

    Attributes:
        corrections: what reports of progress change of predictions.
    """

    def __init__(self, interference: Interference) -> None:
        self.corrections = Corrections()
        self.name = interference.name
        self.interference = interference
        self.neighbourhood = Neighbourhood(interference.vector, interference.width)
        self._heuristic = HeuristicScore()

    def expect(self, communicates: Communicates) -> None:
        """Ask this for the communication of jobs from now on; without it jobs are typical."""
        self.neighbourhood.expect(communicates)

    @property
    def correction_count(self) -> int:
        """See policies.PredictsLosses."""
        return len(self.corrections)

    def loss_of(
        self, cluster: Cluster, job_id: JobId, spec_of: Callable[[JobId], JobSpec | None]
    ) -> NeighbourLoss | None:
        """See policies.PredictsLosses; nothing that decisions depend on is changed."""
        predictor = NeighbourPredictor(self.interference, self.neighbourhood.communicates)
        return predictor.predict(cluster, job_id, spec_of)

    def score(self, features: Array) -> Array:
        """See policies.ScorePolicy.

        Raises:
            PolicyError: always; the engine asks `score_within`.
        """
        raise PolicyError(f"{self.name} scores candidates only within their cluster")

    def score_within(self, question: ScoreQuestion) -> Array:
        """See policies.ClusterScore."""
        return self._scored(question)[0]

    def lost_frac(self, question: ScoreQuestion) -> float:
        """Return the share of its speed that a newcomer loses at the best candidate.

        Raises:
            PolicyError: the model could not answer.
        """
        scores, lost = self._scored(question)
        return 1.0 - float(np.exp(-lost[int(np.argmax(scores))]))

    def _scored(self, question: ScoreQuestion) -> tuple[Array, NDArray[np.float64]]:
        """Return the scores, and the newcomer's log slowdowns: [candidate] each."""
        self.neighbourhood.refresh(question.cluster, question.spec_of)
        base = self._heuristic.score(question.features)
        found = self._losses(question, Parts.of(question))
        if found is None:
            return base, np.zeros(len(base))
        newcomer, losses = found
        rounded: Array = np.rint(losses * PRICE / _ROUNDED_TO).astype(np.float32)
        return base - rounded * np.float32(_ROUNDED_TO), newcomer

    def costliest(self, question: ScoreQuestion, candidate: int) -> NeighbourCost | None:
        """Return the neighbour that costs most at one candidate; None where none costs anything.

        Raises:
            PolicyError: the model could not answer.
        """
        self.neighbourhood.refresh(question.cluster, question.spec_of)
        parts = Parts.of(question)
        worst: _PairLoss | None = None
        for part in np.flatnonzero(parts.candidate == candidate).tolist():
            node, mask = int(parts.node[part]), int(parts.mask[part])
            residents = self.neighbourhood.residents(question.cluster, node)
            if not residents.jobs:
                continue
            found = self._worst_on(question, parts, part, residents, mask)
            if worst is None or (found.total, found.neighbour) > (worst.total, worst.neighbour):
                worst = found
        if worst is None or worst.total <= _ROUNDED_TO:
            return None
        return NeighbourCost(
            worst.neighbour,
            1.0 - np.exp(-worst.lost),
            above(worst.lost, worst.spread, 0.02),
            1.0 - np.exp(-worst.caused),
        )

    def _worst_on(
        self,
        question: ScoreQuestion,
        parts: Parts,
        part: int,
        residents: Residents,
        mask: int,
    ) -> _PairLoss:
        """Return the pair with the largest loss, of the newcomer and each neighbour on a node."""
        cluster, node = question.cluster, int(parts.node[part])
        ((_, own, _),) = self._newcomers(question, parts, np.array([part]))
        count = len(residents.jobs)
        weights = residents.counts / others_count(cluster, node, mask)
        back = mask.bit_count() / (cluster.gpu_count[node] - residents.counts)
        level = self.neighbourhood.level(cluster, node, residents, mask)
        beside = self._empty(2 * count)
        for at in range(count):
            beside[at, level[at]] = residents.vectors[at] * weights[at]
            beside[count + at, level[at]] = own * back[at]
        tier = np.full(2 * count, parts.tier[parts.candidate[part]])
        rows = np.concatenate([np.tile(own, (count, 1)), residents.vectors])
        mean, spread = self.interference.slowdowns(rows, beside, tier)
        if self._is_corrected(question.job):
            for at, job_id in enumerate(residents.jobs):
                mean[at] = self._corrected(question, node, mask, float(mean[at]), job_id)
        gpus = question.candidates.shape.gpu_count
        total = mean[:count] * gpus + mean[count:] * residents.counts
        worst = int(np.argmax(total))
        return _PairLoss(
            float(total[worst]),
            residents.jobs[worst],
            float(mean[worst]),
            float(spread[worst]),
            float(mean[count + worst]),
        )

    def _losses(
        self, question: ScoreQuestion, parts: Parts
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return the newcomer's loss and all losses: [candidate]; None: no candidate has others."""
        cluster, around = question.cluster, self.neighbourhood
        nodes, masks = parts.node.tolist(), parts.mask.tolist()
        on = {node: around.residents(cluster, node) for node in dict.fromkeys(nodes)}
        occupied = [one for one, node in enumerate(nodes) if on[node].jobs]
        if not occupied:
            return None
        at, sets = _ALL, list(zip(nodes, masks, strict=True))
        if len(occupied) < len(sets):
            at, sets = np.array(occupied), [sets[one] for one in occupied]
        row = np.array(around.rows_of(cluster, on, sets))
        of, mean = parts.candidate[at], self._predicted(self._newcomers(question, parts, at), row)
        if self._is_corrected(question.job):
            for each, one in enumerate(occupied):
                node, mask = nodes[one], masks[one]
                mean[each, 0] = self._corrected(question, node, mask, float(mean[each, 0]))
                if self._is_bad(question, node, mask):
                    mean[each, 0] += _BAD_PAIR
        candidates, size = len(question.features), question.candidates.shape.gpu_count
        newcomer, others = np.zeros(candidates), np.zeros(candidates)
        lost, caused = mean[:, 0], mean[:, 1] * around.rows.gpus.take(row)
        if len(parts.node) == candidates:  # one node each
            newcomer[of], others[of] = lost, caused
        else:
            np.maximum.at(newcomer, of, lost)
            np.add.at(others, of, caused)
        return newcomer, newcomer + others / max(size, 1)

    def _predicted(self, newcomers: list[Newcomers], row: NDArray[np.int64]) -> Array:
        """Return log slowdowns of the newcomer and of the others as one: float32 [part, 2].

        Args:
            newcomers: of the parts.
            row: [part], what each is beside.
        """
        rows, found = self.neighbourhood.rows, np.empty((len(row), 2), dtype=np.float32)
        for where, vector, tier in newcomers:
            found[where] = rows.losses(vector, tier).take(row[where], axis=0)
        missing = np.isnan(found[:, 0]).nonzero()[0]
        if len(missing):
            own = np.empty((len(missing), self.interference.width), dtype=np.float32)
            tiers = np.empty(len(missing), dtype=np.int64)
            for where, vector, tier in newcomers:
                at = where if isinstance(where, slice) else np.isin(missing, where)
                own[at], tiers[at] = vector, tier
            found[missing] = self._asked(own, tiers, row.take(missing))
            for where, vector, tier in newcomers:
                rows.losses(vector, tier)[row[where]] = found[where]
        return found

    def _asked(self, own: Array, tiers: NDArray[np.int64], row: NDArray[np.int64]) -> Array:
        """Ask the model for the same, with the newcomers' vectors: [part, width]."""
        rows, count = self.neighbourhood.rows, len(row)
        beside, tier = self._empty(2 * count), np.zeros(2 * count, dtype=np.int64)
        beside[:count], tier[:count] = rows.sums.take(row, axis=0), tiers
        beside[np.arange(count, 2 * count), rows.level.take(row)] = own
        cases = np.concatenate([own, rows.joined.take(row, axis=0)])
        return self.interference.means(cases, beside, tier).reshape(2, count).T

    def _is_corrected(self, job: JobSpec | None) -> bool:
        return job is not None and self.corrections.knows(kind_of(job))

    def _corrected(
        self, question: ScoreQuestion, node: int, mask: int, mean: float, only: JobId | None = None
    ) -> float:
        """Return a newcomer's log slowdown with what its user's reports change of it.

        Args:
            question: of the newcomer.
            node: where it would run.
            mask: on which GPUs.
            mean: predicted.
            only: beside this job alone; None: beside all jobs on the node.
        """
        assert question.job is not None
        beside = self._beside(question, node, mask, only)
        return max(mean + self.corrections.of(kind_of(question.job), beside), 0.0)

    def _is_bad(self, question: ScoreQuestion, node: int, mask: int) -> bool:
        """Return whether a newcomer would be part of a pair that turned out bad."""
        assert question.job is not None
        beside = self._beside(question, node, mask)
        return self.corrections.is_bad(kind_of(question.job), beside)

    def _beside(
        self, question: ScoreQuestion, node: int, mask: int, only: JobId | None = None
    ) -> list[tuple[str, str]]:
        """Return the kinds of the jobs on a node, or of one, and what each shares with a set."""
        residents = self.neighbourhood.residents(question.cluster, node)
        levels = self.neighbourhood.level(question.cluster, node, residents, mask)
        specs = [(question.spec_of(job_id), job_id) for job_id in residents.jobs]
        return [
            (kind_of(spec), LEVELS[level])
            for (spec, job_id), level in zip(specs, levels.tolist(), strict=True)
            if spec is not None and only in (None, job_id)
        ]

    def _newcomers(
        self, question: ScoreQuestion, parts: Parts, at: NDArray[np.int64] | slice
    ) -> list[Newcomers]:
        """Return the newcomer's vectors on some parts."""
        job, gpu_count = question.job, question.candidates.shape.gpu_count
        tiers = parts.tier.take(parts.candidate[at])
        communication = self.neighbourhood.communicates(job, gpu_count)
        return self.neighbourhood.newcomers(question.cluster, parts.node[at], tiers, communication)

    def _empty(self, count: int) -> Array:
        return np.zeros((count, len(LEVELS), self.interference.width), dtype=np.float32)
