"""Writes into the admin comments of waiting jobs when they are expected to start.

A comment costs Slurm two commands, so it is written again only when the forecast has moved, and so
many times in a minute at most: the jobs that start soonest come first.
"""

import time
from collections.abc import Callable
from math import inf, isfinite

from roost_engine.domain.model import JobId
from roost_engine.forecast.forecast import Forecast, JobForecast, Quantiles
from roost_engine.job_record import JobState
from roost_slurm.text.limits import LAST_EPOCH_S
from roostd.config.config import Mode
from roostd.state import DaemonState

MOVED_S = 60.0
MOVED_FRAC = 0.25  # of the time that was left when the comment was written
_WRITING = (Mode.ADVISE, Mode.ENFORCE)
_MINUTE_S = 60.0


class EtaComments:
    """Decides which forecasts are written, and remembers them.

    Args:
        state: the daemon's; read only.
        write: writes a text into the comment of a job, some time later.
    """

    def __init__(self, state: DaemonState, write: Callable[[JobId, str], None]) -> None:
        self._state, self._write = state, write
        self._written: dict[JobId, tuple[float, float]] = {}  # expected start, and when written
        self._allowed = 0.0  # comments that may be written now
        self._counted_s = -inf

    def update(self, forecast: Forecast) -> None:
        """Write what has moved, as far as the rate allows."""
        state, eta = self._state, self._state.config.eta
        if not eta.admin_comment:
            self._written.clear()
            return
        now_s = state.clock.now_s()
        passed_frac = min((now_s - self._counted_s) / _MINUTE_S, 1.0)
        most = float(eta.comments_per_minute)
        self._allowed = min(self._allowed + passed_frac * most, most)
        self._counted_s = now_s
        self._written = {
            job_id: what for job_id, what in self._written.items() if job_id in forecast.jobs
        }
        for job_id, expected in forecast.jobs.items():
            if self._allowed < 1.0:
                break
            if expected.start is not None and self._is_due(job_id, forecast.at_s, expected.start):
                self._allowed -= 1.0
                start_s = forecast.at_s + expected.start.median_s
                self._written[job_id] = start_s, forecast.at_s
                self._write(job_id, self._text(forecast.at_s, expected))

    def _is_due(self, job_id: JobId, at_s: float, start: Quantiles) -> bool:
        written = self._written.get(job_id)
        if written is not None:
            (start_s, written_s), now_start_s = written, at_s + start.median_s
            # Beyond the forecast's horizon a start is infinite, and has not moved if it still is.
            bound_s = max(MOVED_S, MOVED_FRAC * (start_s - written_s)) if start_s < inf else 0.0
            if now_start_s == start_s or abs(now_start_s - start_s) <= bound_s:
                return False
        return self._is_written_for(job_id)

    def _is_written_for(self, job_id: JobId) -> bool:
        """Whether a job waits in a mode that writes; the tasks of an array share one comment."""
        record = self._state.engine.managed(job_id)
        if record is None or record.state is not JobState.WAITING or "_" in job_id:
            return False
        return self._state.config.mode_of(record.spec.partition) in _WRITING

    def _text(self, at_s: float, expected: JobForecast) -> str:
        assert expected.start is not None
        start, end = self._span(at_s, expected.start), self._span(at_s, expected.end)
        return f"start {start}, end {end}"

    def _span(self, at_s: float, times: Quantiles) -> str:
        low, middle, high = (
            self._clock(at_s + time_s) for time_s in (times.low_s, times.median_s, times.high_s)
        )
        return f"{middle} ({low} to {high})"

    def _clock(self, at_s: float) -> str:
        """Return a time by the wall clock, in the zone of this machine."""
        if not isfinite(at_s):
            return "later"
        epoch_s = min(self._state.clock.to_epoch_s(at_s), LAST_EPOCH_S)
        return time.strftime("%Y-%m-%dT%H:%M", time.localtime(epoch_s))
