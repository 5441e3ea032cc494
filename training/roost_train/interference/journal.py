"""What jobs reported of their speed beside others, as a site's journal has it.

The events of each run are applied to a cluster without decisions: allocations are in the journal
as Slurm made them. At every reported speed the job's case is taken as the daemon would have asked
the model about it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain import events
from roost_engine.domain.events import Event
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.domain.tier import Tier
from roost_engine.plugins.plugins import Plugins
from roost_engine.plugins.policy_kinds import communication
from roost_engine.prediction.interference.interference_estimates import InterferenceEstimates
from roost_engine.prediction.interference.interference_model import (
    Cases,
    InterferenceModel,
    Slowdowns,
)
from roost_engine.prediction.interference.interference_table import log_slowdown
from roost_engine.prediction.speed.speed_predictor import SpeedPredictor
from roost_engine.prediction.speed.speed_table import TableOfSpeeds
from roost_engine.scoring.neighbours import NeighbourScore
from roost_formats.journal.codec import decode
from roost_formats.journal.reader import JournalReader, Run


@dataclass(frozen=True, slots=True, eq=False)
class Reports:
    """Reported speeds beside neighbours, oldest first.

    Attributes:
        cases: what the model is asked about each.
        slowdown: float64 [report], log slowdown by the report.
        epoch_s: float64 [report], wall clock.
        tier: int64 [report].
        job, user: int64 [report], numbers that tell jobs and users apart.
    """

    cases: Cases
    slowdown: NDArray[np.float64]
    epoch_s: NDArray[np.float64]
    tier: NDArray[np.int64]
    job: NDArray[np.int64]
    user: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.slowdown)

    def where(self, chosen: NDArray[np.bool_]) -> "Reports":
        """Return some of the reports."""
        cases = Cases(*(rows[chosen] for rows in self.cases))
        times = self.slowdown[chosen], self.epoch_s[chosen]
        return Reports(cases, *times, self.tier[chosen], self.job[chosen], self.user[chosen])


def read_reports(
    path: Path, model: InterferenceModel, progress: Callable[[int], None] = lambda done: None
) -> Reports:
    """Read every report of a job that had neighbours.

    Args:
        path: of the journal.
        model: in service; of a job on several nodes it names the slowest.
        progress: called with the entries that are read.

    Raises:
        JournalError: the journal cannot be read.
    """
    reader, found = JournalReader(path), list[_Report]()
    try:
        done = 0
        for run in reader.runs():
            site = _Site(run, model)
            for entry in reader.entries(run):
                report = site.apply(reader.event(entry))
                if report is not None:
                    found.append(report)
                done += 1
                progress(done)
    finally:
        reader.close()
    return _joined(found)


@dataclass(frozen=True, slots=True)
class _Report:
    case: Cases
    slowdown: float
    epoch_s: float
    tier: Tier
    job: tuple[float, JobId]
    user: int


def _joined(found: list[_Report]) -> Reports:
    if not found:
        nothing, none = np.zeros(0), np.zeros(0, np.int64)
        return Reports(Cases.empty(0), nothing, nothing, none, none, none)
    jobs = {job: at for at, job in enumerate(sorted({report.job for report in found}))}
    return Reports(
        Cases(*(np.concatenate(rows) for rows in zip(*(one.case for one in found), strict=True))),
        np.array([report.slowdown for report in found]),
        np.array([report.epoch_s for report in found]),
        np.array([int(report.tier) for report in found]),
        np.array([jobs[report.job] for report in found]),
        np.array([report.user for report in found]),
    )


class _CaseTaker:
    """An interference model that also keeps the cases that it was last asked about."""

    def __init__(self, model: InterferenceModel) -> None:
        self.name, self._model, none = model.name, model, np.zeros(0, np.float32)
        self.cases, self.answer = Cases.empty(0), Slowdowns(none, none)

    def slowdowns(self, cases: Cases) -> Slowdowns:
        self.cases, self.answer = cases, self._model.slowdowns(cases)
        return self.answer

    def means(self, cases: Cases) -> NDArray[np.float32]:
        return self.slowdowns(cases).mean


class _Site:
    """The cluster and its jobs in one run of a journal."""

    def __init__(self, run: Run, model: InterferenceModel) -> None:
        plugins = decode(run.head.plugins, Plugins) if run.head.plugins else Plugins()
        table = TableOfSpeeds(plugins.speeds)
        self._zero_epoch_s, self._cluster = run.head.epoch_of_zero_s, Cluster()
        self._specs, self._begun = dict[JobId, JobSpec](), dict[JobId, float]()
        self._taker = _CaseTaker(model)
        self._score = NeighbourScore(InterferenceEstimates(self._taker))
        self._score.expect(partial(communication, SpeedPredictor(table), table))

    def apply(self, event: Event) -> _Report | None:
        """Apply an event; return the report that it is, if the job has neighbours."""
        cluster, at_s = self._cluster, event.at_s
        match event:
            case events.NodeSeen():
                cluster.apply_node(event.node)
            case events.NodeLost():
                cluster.remove_node(event.name)
            case events.TopologySeen():
                cluster.apply_topology(event.name, event.links, event.gpu_uuids)
            case events.LoadsSeen():
                cluster.apply_loads(event.names, event.load)
            case events.JobLoadSeen():
                cluster.apply_job_load(event.job_id, event.load)
            case events.JobQueued() | events.JobChanged():
                self._specs[event.job.job_id] = event.job
            case events.JobStarted():
                if event.job is not None:
                    self._specs[event.job_id] = event.job
                cluster.hold(event.job_id, event.shares)
                self._begun[event.job_id] = at_s if event.since_s is None else event.since_s
            case events.JobEnded():
                cluster.release(event.job_id)
                self._specs.pop(event.job_id, None)
            case events.JobsStopped():
                for job_id in event.job_ids:
                    cluster.release(job_id)
            case events.SpeedSeen():
                return self._report(event.job_id, event.speed_frac, at_s)
            case _:
                pass
        return None

    def _report(self, job_id: JobId, speed_frac: float, at_s: float) -> _Report | None:
        observed, spec = log_slowdown(speed_frac), self._specs.get(job_id)
        if observed is None or spec is None:
            return None
        found = self._score.loss_of(self._cluster, job_id, self._specs.get)
        if found is None or not found.beside:
            return None
        worst = int(np.argmax(self._taker.answer.mean))
        case = Cases(*(rows[worst : worst + 1].copy() for rows in self._taker.cases))
        epoch_s = self._zero_epoch_s + at_s
        begun_s = self._zero_epoch_s + self._begun.get(job_id, 0.0)
        return _Report(case, observed, epoch_s, found.tier, (begun_s, job_id), spec.user_id)
