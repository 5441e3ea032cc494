"""Keeps the forecast of starts and ends up to date: docs/eta.md."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

import structlog

from roost_engine.domain.errors import RoostError
from roost_engine.forecast.arrival_log import ArrivalLog
from roost_engine.forecast.forecast import Forecast
from roost_engine.forecast.survey import survey
from roostd.app.forecast.forecast_worker import ForecastTask
from roostd.ops.slices import Slices
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)

_FIRST_AFTER_S = 5.0  # by then a queue that was there at the start has been offered GPUs
_Result = TypeVar("_Result")


class Forecaster:
    """Surveys the queue every eta.interval_s, and has it played forward.

    Args:
        state: the daemon's; receives the forecast.
        compute: plays the queue forward elsewhere.
        correct: returns a forecast corrected by how wrong earlier ones were; runs in a thread.
        on_forecast: called after each new forecast.
    """

    def __init__(
        self,
        state: DaemonState,
        compute: Callable[[ForecastTask], Awaitable[Forecast]],
        correct: Callable[[Forecast], Forecast] = lambda found: found,
        on_forecast: Callable[[Forecast], None] = lambda _: None,
    ) -> None:
        self._state, self._compute = state, compute
        self._correct, self._on_forecast = correct, on_forecast
        self._log = ArrivalLog(state.clock.now_s())
        self._seed = 0

    async def run(self) -> None:
        """Forecast until cancelled."""
        await asyncio.sleep(min(_FIRST_AFTER_S, self._state.config.eta.interval_s))
        while True:
            await self.turn()
            await asyncio.sleep(self._state.config.eta.interval_s)

    async def turn(self) -> None:
        """Make one forecast; when that fails the last one stays, with the reason."""
        state, eta = self._state, self._state.config.eta
        if not eta.enabled:
            state.forecast, state.forecast_fault = None, ""
            return
        self._seed += 1
        try:
            engine, at_s = state.engine, state.clock.now_s()
            await _with_pauses(self._log.observe(engine, at_s))
            snapshot = await _with_pauses(survey(engine, self._log, at_s))
            task = ForecastTask(
                snapshot=snapshot, draws=eta.draws, budget_s=eta.budget_s, seed=self._seed
            )
            found = await self._compute(task)
            state.forecast = await asyncio.to_thread(self._correct, found)
        except RoostError as error:
            if not state.forecast_fault:
                _log.warning("forecast_failed", error=str(error))
            state.forecast_fault = str(error)
        except Exception as error:  # noqa: BLE001  a fault in a forecast must not end the daemon
            if not state.forecast_fault:
                _log.exception("forecast_failed")
            state.forecast_fault = f"{type(error).__name__}: {error}"
        else:
            state.forecast_fault = ""
            self._on_forecast(state.forecast)


async def _with_pauses(steps: Generator[None, None, _Result]) -> _Result:
    """Run a generator to its end, in slices."""
    slices = Slices()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _Result = end.value
            return result
        await slices.give_way()
