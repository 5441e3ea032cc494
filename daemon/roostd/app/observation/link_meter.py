"""Averages how busy the links of running jobs are, and reports the means to the engine.

For each job that runs on several GPUs there are three means over its present run: of NVLink, of
PCIe and of the nearest network cards (telemetry.link_use). They are reported as LinksSeen events: a
minute after the start, and then at most once a minute when a mean has changed by more than a
twentieth. Events go to the journal, so a replay applies the same. Without telemetry there is
nothing to report.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.events import Event, LinksSeen
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord
from roostd.state import DaemonState
from roostd.telemetry.link_use import KINDS, busy_fracs

_REPORT_EVERY_S = 60.0
_CHANGED_FRAC = 0.05  # of the value reported last
_CHANGED_LEAST = 0.005  # a fraction of time; smaller changes do not matter
# A round over all jobs takes this many polls at most. A node costs 80 us: 12,000 nodes cost 16 ms
# in each poll.
_POLLS_PER_ROUND = 60


@dataclass(slots=True)
class _Mean:
    total: float = 0.0
    count: int = 0
    reported: float | None = None

    def add(self, fracs: NDArray[np.float32]) -> None:
        """Add one sample: float32 [gpu], NaN where unknown."""
        known = fracs[np.isfinite(fracs)]
        if len(known):
            self.total += float(known.mean())
            self.count += 1

    @property
    def now(self) -> float | None:
        return self.total / self.count if self.count else None

    @property
    def has_changed(self) -> bool:
        now = self.now
        if now is None or self.reported is None:
            return now is not None
        return abs(now - self.reported) > max(_CHANGED_FRAC * self.reported, _CHANGED_LEAST)


@dataclass(slots=True)
class _Run:
    """The samples of one run of a job. Times are engine time."""

    started_s: float
    reported_s: float
    sampled_s: float
    means: tuple[_Mean, ...] = field(default_factory=lambda: tuple(_Mean() for _ in KINDS))


class LinkMeter:
    """See the module.

    Args:
        state: has the engine, the clock and the probes' newest reports.
        emit: takes LinksSeen events.
    """

    def __init__(self, state: DaemonState, emit: Callable[[Event], None]) -> None:
        self._state, self._emit = state, emit
        self._runs: dict[JobId, _Run] = {}
        self._round: deque[JobId] = deque()
        self._slice_count = 0

    def poll(self) -> None:
        """Sample the next part of the running jobs. To be called about once a second."""
        if not self._round:
            self._begin_round()
        for _ in range(min(self._slice_count, len(self._round))):
            self._sample_job(self._round.popleft())

    def _begin_round(self) -> None:
        watched = dict.fromkeys(self._watched())
        self._runs = {job_id: run for job_id, run in self._runs.items() if job_id in watched}
        self._round.extend(watched)
        self._slice_count = -(-len(watched) // _POLLS_PER_ROUND)

    def _watched(self) -> Iterator[JobId]:
        return (job_id for job_id, record in self._state.engine.records() if _is_watched(record))

    def _sample_job(self, job_id: JobId) -> None:
        record = self._state.engine.managed(job_id)
        if record is None or record.started_s is None or not _is_watched(record):
            return
        now_s = self._state.clock.now_s()
        run = self._runs.get(job_id)
        if run is None or run.started_s != record.started_s:
            run = self._runs[job_id] = _Run(record.started_s, now_s, now_s)
        self._add_samples(record, run, now_s)
        has_changed = any(mean.has_changed for mean in run.means)
        if has_changed and now_s - run.reported_s >= _REPORT_EVERY_S:
            run.reported_s = now_s
            for mean in run.means:
                mean.reported = mean.now
            fracs = {f"{kind}_frac": mean.now for kind, mean in zip(KINDS, run.means, strict=True)}
            self._emit(LinksSeen(at_s=now_s, job_id=job_id, **fracs))

    def _add_samples(self, record: JobRecord, run: _Run, now_s: float) -> None:
        """Add the probes' newest samples, once every node of the job has a new one."""
        parts = list[NDArray[np.float32]]()
        for share in record.shares:
            report = self._state.board.report(share.node)
            if report is None or report.sample_at_s <= run.sampled_s:
                return
            busy = busy_fracs(report)
            if busy is None or len(busy) <= max(share.gpu_indices, default=-1):
                return
            parts.append(busy[list(share.gpu_indices)])
        run.sampled_s = now_s
        if parts:
            for mean, fracs in zip(run.means, np.concatenate(parts).T, strict=True):
                mean.add(fracs)


def _is_watched(record: JobRecord) -> bool:
    return record.is_on_gpus and record.spec.gpu_count > 1
