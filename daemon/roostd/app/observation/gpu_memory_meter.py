"""Learns how much GPU memory kinds of jobs use, from the probes' samples; for jobs that share GPUs.

Every half minute it looks at the jobs that run. What a GPU's memory is used for is the job's that
has the GPU alone; where jobs share it, it is that of each job's processes, as the probe lists them.
A run that was not known of at a poll teaches nothing. Nor does one that was seen twice only: its
use may not have come to its highest. What was learned is stored in the state folder, every five
minutes in which it changed and when the daemon stops.

A job that may share its GPUs and outgrows what it counts with is reported to the engine, which then
seats no job beside it, or beside another of its kind, for which the rest is too little. Where it
shares them already and the two do not fit any more, that is logged.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from roost_engine.domain.events import Event, MemorySeen
from roost_engine.domain.model import JobId, NodeShare
from roostd.ops.state_file import StateFile
from roostd.state import DaemonState
from roostd.telemetry.gpu_memory import (
    MOST_BYTES,
    GpuMemoryPeaks,
    in_steps,
    read_peaks,
)
from roostd.telemetry.job_memory import used_by_holders
from roostd.telemetry.probe_messages import column

_log = structlog.get_logger(__name__)

LOOK_EVERY_S = 30.0
LEAST_LOOKS = 3
_STORE_EVERY_S = 300.0


@dataclass(slots=True)
class _Run:
    """A job that runs.

    Attributes:
        peak_bytes: the highest use of any of its GPUs so far.
        is_known: whether every poll found the use of all of its GPUs; else the run teaches nothing.
    """

    user_id: int
    name: str
    peak_bytes: int = 0
    look_count: int = 0
    is_known: bool = True


class GpuMemoryMeter:
    """See the module.

    Args:
        state: has the engine, the clock, the probes' newest reports, and the peaks to add to.
        path: where the peaks are stored.
        emit: takes MemorySeen events.
    """

    def __init__(self, state: DaemonState, path: Path, emit: Callable[[Event], None]) -> None:
        self._state, self._emit = state, emit
        self._file = StateFile(path, "gpu_memory", MOST_BYTES)
        self._runs: dict[JobId, _Run] = {}
        self._looked_s = self._stored_s = state.clock.now_s()
        state.gpu_memory = self._file.read(read_peaks) or GpuMemoryPeaks()
        self._stored_count = 0

    def poll(self) -> None:
        """Look at the jobs if that is due. To be called about once a second."""
        now_s = self._state.clock.now_s()
        if self._state.config.sharing.enabled and now_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            self._look()
        if now_s - self._stored_s >= _STORE_EVERY_S:
            self.store()

    def store(self) -> None:
        """Store the peaks if they have changed."""
        self._stored_s, peaks = self._state.clock.now_s(), self._state.gpu_memory
        if peaks.change_count == self._stored_count:
            return
        if self._file.write(peaks.text()):
            self._stored_count = peaks.change_count

    def _look(self) -> None:
        held = set(self._state.engine.cluster.held_jobs())
        for job_id in [job_id for job_id in self._runs if job_id not in held]:
            run = self._runs.pop(job_id)
            if run.is_known and run.look_count >= LEAST_LOOKS:
                self._state.gpu_memory.note_run(run.user_id, run.name, run.peak_bytes)
        for job_id in held:
            found = self._runs.get(job_id) or self._begun(job_id)
            if found is not None:
                self._runs[job_id] = found
                self._measure(job_id, found)
                self._report(job_id, found)

    def _begun(self, job_id: JobId) -> _Run | None:
        record = self._state.engine.managed(job_id)
        if record is None or not record.spec.name:
            return None
        return _Run(record.spec.user_id, record.spec.name)

    def _measure(self, job_id: JobId, run: _Run) -> None:
        run.look_count += 1
        for share in self._state.engine.cluster.shares(job_id):
            used = self._used_bytes(job_id, share)
            if used is None:
                run.is_known = False
            else:
                run.peak_bytes = max(run.peak_bytes, used)

    def _report(self, job_id: JobId, run: _Run) -> None:
        """Report a job that uses more than the engine knows, in whole GiB."""
        seating, record = self._state.engine.seating, self._state.engine.managed(job_id)
        if seating is None or record is None or not record.spec.shares_gpus:
            return
        if run.peak_bytes <= seating.needs.needed_bytes(record.spec):
            return
        used_bytes, now_s = in_steps(run.peak_bytes), self._state.clock.now_s()
        self._state.gpu_memory.note_outgrown(run.user_id, run.name, used_bytes)
        self._emit(MemorySeen(at_s=now_s, job_id=job_id, used_bytes=used_bytes))
        if partners := seating.seats.partners(job_id):
            _log.warning(
                "gpu_memory_outgrown",
                job_id=job_id,
                counted_bytes=record.spec.gpu_memory_bytes,
                used_bytes=used_bytes,
                beside=", ".join(partners),
            )

    def _used_bytes(self, job_id: JobId, share: NodeShare) -> int | None:
        """Return a job's highest use of its GPUs on one node; None: not known of each of them."""
        state = self._state
        report = state.board.live_report(share.node, state.config.telemetry.stale_after_s)
        if report is None or report.sample is None:
            return None
        of_gpus = column(report.sample.memory_used_bytes, report.hello.order)
        seats, highest = state.engine.cluster.seats, 0
        for gpu in share.gpu_indices:
            holders = {} if seats is None else seats.holders(share.node, gpu)
            used = of_gpus[gpu] if gpu < len(of_gpus) else None
            if len(holders) > 1:
                of_jobs = used_by_holders(report, gpu, holders, state.job_ids)
                used = None if of_jobs is None else of_jobs[job_id]
            if used is None:
                return None
            highest = max(highest, int(used))
        return highest
