"""Reports to the engine what running jobs do to their GPUs over minutes, beyond the newest load.

Memory used, power, clocks and variations (telemetry.job_load), every five minutes in which they
have changed. Only where `telemetry.job_loads` is on: the model that ships reads none of them. Left
out are jobs beside another one on a GPU: the readings of the GPU are those of both.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.events import Event, JobLoadSeen
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine
from roost_engine.job_record import JobRecord
from roostd.state import DaemonState
from roostd.telemetry.job_load import (
    WINDOW_S,
    LoadWindow,
    gpu_readings,
    has_changed,
    share_of,
)

# A round over all jobs takes this many polls at most: a sample a minute of each, or more.
_POLLS_PER_ROUND = 60


@dataclass(slots=True)
class _Run:
    """The window of one run of a job. Times are engine time."""

    started_s: float
    sampled_s: float
    window: LoadWindow
    reported: dict[str, float] = field(default_factory=dict)


class JobLoadMeter:
    """See the module.

    Args:
        state: has the engine, the clock and the probes' newest reports.
        emit: takes JobLoadSeen events.
    """

    def __init__(self, state: DaemonState, emit: Callable[[Event], None]) -> None:
        self._state, self._emit = state, emit
        self._engine: Engine | None = None  # that knows what was reported
        self._runs: dict[JobId, _Run] = {}
        self._round: deque[JobId] = deque()
        self._slice_count = 0

    def poll(self) -> None:
        """Sample the next part of the running jobs. To be called about once a second."""
        if not self._state.config.telemetry.job_loads:
            return
        if self._engine is not self._state.engine:
            self._engine, self._runs = self._state.engine, {}
        if not self._round:
            self._begin_round()
        for _ in range(min(self._slice_count, len(self._round))):
            self._sample_job(self._round.popleft())

    def _begin_round(self) -> None:
        records = self._state.engine.records()
        watched = [job_id for job_id, record in records if self._is_watched(record)]
        known = self._runs
        self._runs = {job_id: known[job_id] for job_id in watched if job_id in known}
        self._round.extend(watched)
        self._slice_count = -(-len(watched) // _POLLS_PER_ROUND)

    def _is_watched(self, record: JobRecord) -> bool:
        seats = self._state.engine.cluster.seats
        return record.is_on_gpus and (seats is None or not seats.partners(record.job_id))

    def _sample_job(self, job_id: JobId) -> None:
        record, now_s = self._state.engine.managed(job_id), self._state.clock.now_s()
        if record is None or record.started_s is None or not self._is_watched(record):
            return
        run = self._runs.get(job_id)
        if run is None or run.started_s != record.started_s:
            run = self._runs[job_id] = _Run(record.started_s, now_s, LoadWindow(now_s))
        readings = self._readings(record, run.sampled_s)
        if readings:
            run.sampled_s = now_s
            run.window.add(readings)
        if now_s - run.window.began_s < WINDOW_S:
            return
        load, run.window = run.window.load(), LoadWindow(now_s)
        if has_changed(run.reported, load):
            run.reported = load
            self._emit(JobLoadSeen(at_s=now_s, job_id=job_id, load=load))

    def _readings(self, record: JobRecord, past_s: float) -> list[NDArray[np.float64]]:
        """Return the readings of a job's GPUs; empty until each node has a sample since then."""
        parts = list[NDArray[np.float64]]()
        stale_after_s = self._state.config.telemetry.stale_after_s
        for share in record.shares:
            report = self._state.board.live_report(share.node, stale_after_s)
            if report is None or report.sample_at_s <= past_s:
                return []
            found = gpu_readings(report)
            if found is None or len(found) <= max(share.gpu_indices, default=-1):
                return []
            parts.append(share_of(found, share.gpu_indices))
        return parts
