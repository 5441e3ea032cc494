"""Keeps how wrong forecasts were, across restarts, in a file of the state folder.

The file is a few kilobytes: by day, how many errors were in each bin; see forecast.calibration. One
that is damaged is left behind: learning begins again, and the log says so.
"""

import json
from functools import partial
from pathlib import Path

from roost_engine.forecast.calibration import Calibration, ErrorCounts
from roost_engine.forecast.forecast import DAY_S, Forecast
from roost_engine.forecast.survey import started_s
from roostd.ops.state_file import StateFile
from roostd.state import DaemonState

_STORE_EVERY_S = 60.0
_MOST_BYTES = 1_000_000
_MOST_ERRORS = 1 << 53  # in a bin: a float holds them exactly
_OLDEST_DAYS = 3_660


class ForecastErrors:
    """Compares forecasts with the starts that came, and corrects later ones.

    Args:
        state: has the clock and the engine.
        path: where the errors are stored.
    """

    def __init__(self, state: DaemonState, path: Path) -> None:
        self._state, self._file = state, StateFile(path, "forecast_errors", _MOST_BYTES)
        # Days by the wall clock, which continues while there is no daemon.
        self._day_shift = int(state.clock.to_epoch_s(0.0) // DAY_S)
        self._calibration = Calibration(known=self._file.read(self._parsed) or {})
        self._stored, self._stored_s = self._calibration.counts(), state.clock.now_s()

    def corrected(self, found: Forecast) -> Forecast:
        """Learn from the starts up to now, and return a new forecast, corrected by that."""
        self._calibration.settle(partial(started_s, self._state.engine))
        said = self._calibration.correct(found)
        self._calibration.note(found)
        if self._state.clock.now_s() >= self._stored_s + _STORE_EVERY_S:
            self.store()
        return said

    def store(self) -> None:
        """Write the file if something was learned since."""
        self._stored_s = self._state.clock.now_s()
        counts = self._calibration.counts()
        if counts == self._stored:
            return
        days = {str(day + self._day_shift): errors for day, errors in counts.items()}
        if self._file.write(json.dumps({"version": 1, "days": days})):
            self._stored = counts

    def _parsed(self, text: str) -> ErrorCounts:
        """Return what the file says; days that have not come yet, by a clock set back, are lost."""
        today, document = int(self._state.clock.now_s() // DAY_S), json.loads(text)
        if document["version"] != 1:
            raise ValueError(f"version {document['version']}")
        days = {
            int(day) - self._day_shift: tuple(map(int, errors))
            for day, errors in document["days"].items()
        }
        return {
            day: errors
            for day, errors in days.items()
            if today - _OLDEST_DAYS <= day <= today and max(errors, default=0) <= _MOST_ERRORS
        }
