"""The neighbours score: the heuristic's score less what jobs on the same nodes cost each other.

    score = heuristic(columns) - PRICE · (GPUs · loss(newcomer) + Σ GPUs · loss(joined)) / GPUs

A loss is a predicted mean log slowdown, weighed by the GPUs of the job that has it, per GPU of the
newcomer. Where nothing is predicted to be lost, the order is the heuristic's. The jobs of a node
that the newcomer joins are asked about as one, their vectors averaged with their GPUs as weights:
exact for a model whose cost is a product of the two jobs' loads. A gang waits for its slowest
node, so the newcomer's loss is the largest of its nodes. Page: docs/interference.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import LOAD_QUANTITIES, weighted_sums
from roost_engine.cluster.link_table import mask_of
from roost_engine.domain.errors import PolicyError
from roost_engine.domain.job_kind import kind_of
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.policies import ScoreQuestion
from roost_engine.scoring.graph_candidates import Parts
from roost_engine.scoring.graph_jobs import Communicates, Communication, ResidentJobs, typical
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.scoring.neighbour_corrections import Corrections
from roost_engine.scoring.neighbour_cost import NeighbourCost, above
from roost_engine.scoring.neighbour_levels import LEVELS, around, others_count

Array = NDArray[np.float32]

PRICE = 2.0  # heuristic points for a log slowdown of 1 of as many GPUs as the newcomer has
_ROUNDED_TO = 1e-5
# Links between nodes are a quarter as fast as PCIe, per GPU: the rule of prediction.speed.
_NETWORK_SLOWDOWN = 4.0


class Interference(Protocol):
    """Predicts slowdowns; prediction.interference_estimates has it.

    Attributes:
        name: of the model.
        width: columns of a load vector.
    """

    name: str
    width: int

    def vector(self, means: Mapping[str, float]) -> Array:
        """Return the load vector of a job of which these quantities are known: [width]."""

    def slowdowns(
        self, own: Array, beside: Mapping[str, Array], tier: NDArray[np.int64]
    ) -> tuple[Array, Array]:
        """Return mean and spread of log slowdowns.

        Args:
            own: [case, width].
            beside: by level, weighted sums of neighbours' vectors, [case, width].
            tier: [case].
        """


class _Beside(NamedTuple):
    """What a set of GPUs of one node is beside.

    Attributes:
        sums: float32 [level, width], of the other jobs' vectors, weighted.
        joined: float32 [width], the other jobs as one.
        gpus: how many GPUs lose as `joined` does, weighted by what the set is of their others.
        level: the closest that any of them shares, a position in LEVELS.
    """

    sums: Array
    joined: Array
    gpus: float
    level: int


@dataclass(frozen=True, slots=True)
class _Residents:
    """The jobs on one node, in the order of their ids.

    Attributes:
        jobs: their ids.
        masks: int64 [job], GPUs on this node.
        counts: float64 [job], how many these are.
        vectors: float32 [job, width].
        beside: what was computed of sets of free GPUs, by mask.
    """

    jobs: tuple[JobId, ...]
    masks: NDArray[np.int64]
    counts: NDArray[np.float64]
    vectors: Array
    beside: dict[int, _Beside] = field(default_factory=dict)


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
        self._heuristic = HeuristicScore()
        self._communicates: Communicates = partial(_over_pcie, typical)
        self._jobs = ResidentJobs()
        self._cluster: Cluster | None = None
        self._known: dict[int, _Residents] = {}
        self._near: dict[tuple[int, int], tuple[int, int]] = {}
        self._nvlinked: dict[int, bool] = {}

    def expect(self, communicates: Communicates) -> None:
        """Ask this for the communication of jobs from now on; without it jobs are typical."""
        self._communicates, self._cluster = partial(_over_pcie, communicates), None

    def score(self, features: Array) -> Array:
        """See policies.ScorePolicy.

        Raises:
            PolicyError: always; the engine asks `score_within`.
        """
        raise PolicyError(f"{self.name} scores candidates only within their cluster")

    def score_within(self, question: ScoreQuestion) -> Array:
        """See policies.ClusterScore."""
        self._refresh(question)
        base, parts = self._heuristic.score(question.features), Parts.of(question)
        at = self._occupied(question.cluster, parts)
        if not len(at):
            return base
        losses = self._losses(question, parts, at)
        rounded: Array = np.rint(losses * PRICE / _ROUNDED_TO).astype(np.float32)
        return base - rounded * np.float32(_ROUNDED_TO)

    def costliest(self, question: ScoreQuestion, candidate: int) -> NeighbourCost | None:
        """Return the neighbour that costs most at one candidate; None where none costs anything.

        Raises:
            PolicyError: the model could not answer.
        """
        self._refresh(question)
        parts, worst = Parts.of(question), None
        for part in np.flatnonzero(parts.candidate == candidate).tolist():
            node, mask = int(parts.node[part]), int(parts.mask[part])
            residents = self._residents(question.cluster, node)
            if not residents.jobs:
                continue
            found = self._each(question, parts, part, residents, mask)
            if worst is None or found[:2] > worst[:2]:
                worst = found
        if worst is None or worst[0] <= _ROUNDED_TO:
            return None
        _, job_id, lost, spread, caused = worst
        return NeighbourCost(
            job_id, 1.0 - np.exp(-lost), above(lost, spread, 0.02), 1.0 - np.exp(-caused)
        )

    def _each(
        self,
        question: ScoreQuestion,
        parts: Parts,
        part: int,
        residents: _Residents,
        mask: int,
    ) -> tuple[float, JobId, float, float, float]:
        """Ask about each neighbour; of the worst: total loss, id, lost, spread, caused."""
        cluster, node = question.cluster, int(parts.node[part])
        own = self._own(question, parts)[[part]]
        count = len(residents.jobs)
        weights = residents.counts / others_count(cluster, node, mask)
        back = mask.bit_count() / (cluster.gpu_count[node] - residents.counts)
        level = self._level(cluster, node, residents, mask)
        beside = self._empty(2 * count)
        for at in range(count):
            name = LEVELS[level[at]]
            beside[name][at] = residents.vectors[at] * weights[at]
            beside[name][count + at] = own[0] * back[at]
        tier = np.full(2 * count, parts.tier[parts.candidate[part]])
        rows = np.concatenate([np.repeat(own, count, axis=0), residents.vectors])
        mean, spread = self.interference.slowdowns(rows, beside, tier)
        if self._is_corrected(question.job):
            for at, job_id in enumerate(residents.jobs):
                mean[at] = self._corrected(question, node, mask, float(mean[at]), job_id)
        gpus = question.candidates.shape.gpu_count
        total = mean[:count] * gpus + mean[count:] * residents.counts
        worst = int(np.argmax(total))
        return (
            float(total[worst]),
            residents.jobs[worst],
            float(mean[worst]),
            float(spread[worst]),
            float(mean[count + worst]),
        )

    # -- what is on the nodes ----------------------------------------------------------------

    def _refresh(self, question: ScoreQuestion) -> None:
        cluster = question.cluster
        if self._cluster is not cluster:
            self._cluster, self._jobs = cluster, ResidentJobs(self._communicates)
            self._known.clear()
            cluster.watch_anew()
        changed = cluster.take_changed_jobs()
        if changed:
            nodes = self._jobs.update(cluster, changed, question.spec_of, lambda rack: 0)
            for node in nodes:
                self._known.pop(node, None)

    def _residents(self, cluster: Cluster, node: int) -> _Residents:
        # Loads change with every sample, jobs only with starts and ends.
        is_reported = bool(cluster.loads.reported >> node & 1)
        known = None if is_reported else self._known.get(node)
        if known is not None:
            return known
        jobs = sorted(self._jobs.jobs_on.get(node, {}).items())
        masks = [mask_of(resident.gpus_on[node]) for _, resident in jobs]
        vectors = np.zeros((len(jobs), self.interference.width), dtype=np.float32)
        for at, (_, resident) in enumerate(jobs):
            means = self._expected(cluster, node, resident.here_frac, is_alone=resident.is_alone)
            if is_reported:
                load = cluster.loads.by_gpu[node, list(resident.gpus_on[node])].mean(axis=0)
                means |= zip(LOAD_QUANTITIES, load.tolist(), strict=True)
            vectors[at] = self.interference.vector(means)
        found = _Residents(
            tuple(job_id for job_id, _ in jobs),
            np.array(masks, dtype=np.int64),
            np.array([mask.bit_count() for mask in masks], dtype=np.float64),
            vectors,
        )
        self._known[node] = found
        return found

    def _expected(
        self, cluster: Cluster, node: int, frac: float, *, is_alone: bool
    ) -> dict[str, float]:
        """Return what is expected of a job without telemetry: communication over what is shared."""
        if not is_alone:
            return {"nic": frac}
        return {"pcie": 0.0 if self._is_nvlinked(cluster, node) else frac}

    def _is_nvlinked(self, cluster: Cluster, node: int) -> bool:
        table = cluster.table(node)
        found = self._nvlinked.get(id(table))
        if found is None:
            rows = table.links.links
            found = self._nvlinked[id(table)] = all(
                link is None or link.nvlink_count > 0 for row in rows for link in row
            )
        return found

    def _occupied(self, cluster: Cluster, parts: Parts) -> NDArray[np.int64]:
        busy = {
            node: bool(self._residents(cluster, node).jobs)
            for node in dict.fromkeys(parts.node.tolist())
        }
        return np.flatnonzero([busy[node] for node in parts.node.tolist()])

    # -- losses ------------------------------------------------------------------------------

    def _losses(
        self, question: ScoreQuestion, parts: Parts, at: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the loss of each candidate; `at` are the parts beside other jobs."""
        cluster, count = question.cluster, len(at)
        own, beside = self._own(question, parts)[at], self._empty(2 * count)
        listed = list(zip(parts.node[at].tolist(), parts.mask[at].tolist(), strict=True))
        found = [self._beside(cluster, node, mask) for node, mask in listed]
        sums, level = np.stack([each.sums for each in found]), [each.level for each in found]
        joined = np.stack([each.joined for each in found])
        gpus = np.array([each.gpus for each in found])
        for position, name in enumerate(LEVELS):
            beside[name][:count] = sums[:, position]
            near = np.flatnonzero(np.array(level) == position)
            beside[name][count + near] = own[near]
        tier = parts.tier[parts.candidate[at]]
        rows = np.concatenate([own, joined])
        mean, _ = self.interference.slowdowns(rows, beside, np.concatenate([tier, 0 * tier]))
        if self._is_corrected(question.job):
            for each, (node, mask) in enumerate(listed):
                mean[each] = self._corrected(question, node, mask, float(mean[each]))
        candidates, size = len(question.features), question.candidates.shape.gpu_count
        newcomer, others = np.zeros(candidates), np.zeros(candidates)
        np.maximum.at(newcomer, parts.candidate[at], mean[:count])
        np.add.at(others, parts.candidate[at], mean[count:] * gpus)
        return newcomer + others / max(size, 1)

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
        residents = self._residents(question.cluster, node)
        levels = self._level(question.cluster, node, residents, mask)
        specs = [(question.spec_of(job_id), job_id) for job_id in residents.jobs]
        beside = [
            (kind_of(spec), LEVELS[level])
            for (spec, job_id), level in zip(specs, levels.tolist(), strict=True)
            if spec is not None and only in (None, job_id)
        ]
        assert question.job is not None
        return max(mean + self.corrections.of(kind_of(question.job), beside), 0.0)

    def _beside(self, cluster: Cluster, node: int, mask: int) -> _Beside:
        """Return what a set of GPUs of a node is beside; stored until the node's jobs change."""
        residents = self._residents(cluster, node)
        known = residents.beside.get(mask)
        if known is not None:
            return known
        weights = (residents.counts / others_count(cluster, node, mask)).astype(np.float32)
        level = self._level(cluster, node, residents, mask)
        by_level = weights * (level == np.arange(len(LEVELS))[:, None])
        sums = weighted_sums(by_level, residents.vectors)
        back = mask.bit_count() / (cluster.gpu_count[node] - residents.counts)
        share = (residents.counts * back).astype(np.float32)
        joined = weighted_sums(share[None], residents.vectors)[0] / share.sum()
        found = _Beside(sums, joined, float(share.sum()), int(level.min()))
        residents.beside[mask] = found
        return found

    def _own(self, question: ScoreQuestion, parts: Parts) -> Array:
        """Return the newcomer's vector on each part: float32 [part, width]."""
        gpu_count = question.candidates.shape.gpu_count
        job: JobSpec | None = question.job
        communication = self._communicates(job, gpu_count)
        cluster, vectors = question.cluster, dict[tuple[int, bool], Array]()
        rows = list[Array]()
        for node, candidate in zip(parts.node.tolist(), parts.candidate.tolist(), strict=True):
            tier = int(parts.tier[candidate])
            key = (tier, tier == 0 and self._is_nvlinked(cluster, node))
            if key not in vectors:
                means = self._expected(cluster, node, communication[tier], is_alone=tier == 0)
                vectors[key] = self.interference.vector(means)
            rows.append(vectors[key])
        return np.stack(rows)

    def _level(
        self, cluster: Cluster, node: int, residents: _Residents, mask: int
    ) -> NDArray[np.int64]:
        """Return what each resident shares with a set of GPUs: positions in LEVELS."""
        table = cluster.table(node)
        found = self._near.get((id(table), mask))
        if found is None:
            found = self._near[id(table), mask] = around(table, mask)
        switch, socket = found
        far: NDArray[np.int64] = np.where(residents.masks & socket, 1, 2)
        return np.where(residents.masks & switch, 0, far)

    def _empty(self, count: int) -> dict[str, Array]:
        width = self.interference.width
        return {level: np.zeros((count, width), dtype=np.float32) for level in LEVELS}


def _over_pcie(communicates: Communicates, job: JobSpec | None, gpu_count: int) -> Communication:
    """Return a job's communication, on one node as over PCIe.

    Speeds are relative to the closest placement, so they do not say what a job exposes there. With
    e the exposed communication over compute in a rack, PCIe leaves e / 4: e / (4 + e) of a step.
    """
    found = communicates(job, gpu_count)
    if gpu_count < 2:
        return found
    exposed = found.rack_frac / max(1.0 - found.rack_frac, 1e-3)
    local = exposed / (_NETWORK_SLOWDOWN + exposed)
    return found._replace(local_frac=max(found.local_frac, local))
