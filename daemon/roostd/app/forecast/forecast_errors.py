"""Keeps how wrong forecasts were, across restarts, in a file of the state folder.

The file is a few kilobytes: by day, how many errors were in each bin; see forecast.calibration. One
that is damaged is left behind: learning begins again, and the log says so.
"""

import json
from functools import partial
from pathlib import Path

import structlog

from roost_engine.forecast.calibration import Calibration, ErrorCounts
from roost_engine.forecast.forecast import DAY_S, Forecast
from roost_engine.forecast.survey import started_s
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)

_STORE_EVERY_S = 60.0
_MOST_BYTES = 1_000_000
_MOST_ERRORS = 1 << 53  # in a bin: a float holds them exactly
_OLDEST_DAYS = 3_660
# What reading a damaged file may raise; OverflowError: JSON's Infinity is no count.
_DAMAGED = (
    *(OSError, ValueError, TypeError, KeyError),
    *(AttributeError, RecursionError, OverflowError),
)


class ForecastErrors:
    """Compares forecasts with the starts that came, and corrects later ones.

    Args:
        state: has the clock and the engine.
        path: where the errors are stored.
    """

    def __init__(self, state: DaemonState, path: Path) -> None:
        self._state, self._path = state, path
        # Days by the wall clock, which continues while there is no daemon.
        self._day_shift = int(state.clock.to_epoch_s(0.0) // DAY_S)
        self._calibration = Calibration(known=self._read())
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
        new = self._path.with_suffix(".new")
        try:
            new.write_text(json.dumps({"version": 1, "days": days}), encoding="utf-8")
            new.replace(self._path)
        except OSError as error:
            _log.error("forecast_errors_not_stored", path=str(self._path), error=str(error))
        else:
            self._stored = counts

    def _read(self) -> ErrorCounts:
        """Return what the file says; days that have not come yet, by a clock set back, are lost."""
        today = int(self._state.clock.now_s() // DAY_S)
        try:
            with self._path.open("rb") as file:
                document = json.loads(file.read(_MOST_BYTES))
            if document["version"] != 1:
                raise ValueError(f"version {document['version']}")
            days = {
                int(day) - self._day_shift: tuple(map(int, errors))
                for day, errors in document["days"].items()
            }
        except FileNotFoundError:
            return {}
        except _DAMAGED as error:
            _log.error("forecast_errors_not_read", path=str(self._path), error=str(error))
            return {}
        return {
            day: errors
            for day, errors in days.items()
            if today - _OLDEST_DAYS <= day <= today and max(errors, default=0) <= _MOST_ERRORS
        }
