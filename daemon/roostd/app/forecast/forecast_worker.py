"""The process that plays the queue forward, so that the daemon's event loop never waits for it.

The daemon starts it as `python -m roostd.app.forecast.forecast_worker`; see `worker_process` for
the way the two talk.
"""

import asyncio
import gc
import pickle
import time
from dataclasses import dataclass

import numpy as np

from roost_engine.domain.errors import RoostError
from roost_engine.forecast.forecast import Forecast, ForecastConfig, Outcome, forecast, plays
from roost_engine.forecast.snapshot import Snapshot
from roostd.ops.worker_process import WorkerProcess, work

_START_S = 20.0  # imports on a busy machine
_MOST_BUDGETS = 10.0
_FEWEST_PLAYS = 3
_COLLECT_EVERY = 100_000  # objects


class WorkerFailed(RoostError):
    """The process died, took too long or answered something else than a forecast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastTask:
    """What the process is asked.

    Attributes:
        snapshot: the queue.
        draws: plays at most.
        budget_s: after so long no other play begins, once there are a few.
        seed: of the draws.
    """

    snapshot: Snapshot
    draws: int
    budget_s: float
    seed: int


class ForecastWorker:
    """Asks the process, and starts it when there is none."""

    def __init__(self) -> None:
        self._process = WorkerProcess(("-m", __name__))

    async def compute(self, task: ForecastTask) -> Forecast:
        """Return a forecast.

        Raises:
            WorkerFailed: see there; the next call starts another process.
        """
        limit_s = _START_S + _MOST_BUDGETS * task.budget_s
        try:
            message = await asyncio.to_thread(pickle.dumps, task)
            answer = await self._process.exchange(message, limit_s)
            found = await asyncio.to_thread(pickle.loads, answer)
        except TimeoutError as error:
            await self.stop()
            raise WorkerFailed(f"no answer in {limit_s:g} s") from error
        except (OSError, EOFError, pickle.PickleError) as error:
            await self.stop()
            raise WorkerFailed(f"the process ended: {error}") from error
        if not isinstance(found, Forecast):
            raise WorkerFailed(str(found))
        return found

    async def stop(self) -> None:
        """End the process, if there is one."""
        await self._process.stop()

    @property
    def pid(self) -> int | None:
        """The id of the process; None: there is none."""
        return self._process.pid


def compute(task: ForecastTask) -> Forecast:
    """Play the queue forward until the budget is spent, in seconds of a core."""
    began_s = time.process_time()
    outcomes = list[Outcome]()
    for outcome in plays(task.snapshot, ForecastConfig(), np.random.default_rng(task.seed)):
        outcomes.append(outcome)
        spent_s = time.process_time() - began_s
        is_spent = spent_s * (1.0 + 1.0 / len(outcomes)) > task.budget_s
        if len(outcomes) >= task.draws or (is_spent and len(outcomes) >= _FEWEST_PLAYS):
            break
    return forecast(task.snapshot, outcomes)


def few_collections() -> None:
    """Collect garbage less often: plays make no cycles; it would cost a tenth of their time."""
    gc.set_threshold(_COLLECT_EVERY)


def main() -> None:
    """Be the process."""
    few_collections()
    work(compute)


if __name__ == "__main__":
    main()
