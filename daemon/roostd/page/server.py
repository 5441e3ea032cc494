"""Serves the page from threads; what they show is read in the daemon's event loop, on demand."""

import asyncio
import concurrent.futures
import json
import threading
import time
from collections.abc import Coroutine
from typing import TypeVar

from roost_engine.domain.errors import ConfigError
from roost_engine.domain.model import JobId
from roostd.ops.metrics_server import MetricsServer, serve_wsgi
from roostd.ops.slices import Readings
from roostd.page.app import PageApp
from roostd.page.document import JobAnswer, build, job_answer, job_document
from roostd.page.last_report import LastReport
from roostd.state import DaemonState

KEPT_S = 2.0  # a document is shown to all browsers for this long
PATIENCE_S = 10.0

_Result = TypeVar("_Result")


class LiveAnswers:
    """Reads the daemon's state when a browser asks; see app.Answers.

    Args:
        state: the daemon's.
        loop: the daemon's event loop.
    """

    def __init__(self, state: DaemonState, loop: asyncio.AbstractEventLoop) -> None:
        self._state, self._loop = state, loop
        self._readings = Readings()
        self._reading = threading.Lock()  # one document at a time, for all that ask
        self._text, self._read_s = "", float("-inf")
        self._report = LastReport(state.config.paths.state_dir)

    def state_json(self) -> str:
        """Return the page's document, at most KEPT_S old.

        Raises:
            TimeoutError: the event loop did not come to it.
        """
        if not self._reading.acquire(timeout=PATIENCE_S):
            raise TimeoutError
        try:
            if time.monotonic() - self._read_s >= KEPT_S:
                self._text = self._run(build(self._state))
                self._read_s = time.monotonic()
            return self._text
        finally:
            self._reading.release()

    def job_json(self, job_id: str) -> str:
        """Return why a job is where it is.

        Raises:
            UnknownJob: neither the engine nor Slurm's queue has it.
            TimeoutError: the event loop did not come to it.
        """
        return json.dumps(job_document(self._run(self._explain(JobId(job_id)))))

    def report_json(self) -> str:
        """Return the report of the last week as far as it is known; another process reads it."""
        return self._report.json()

    async def _explain(self, job_id: JobId) -> JobAnswer:
        async with self._readings.begin():
            return job_answer(self._state, job_id)

    def _run(self, work: Coroutine[None, None, _Result]) -> _Result:
        """Run a coroutine in the daemon's event loop."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:  # the loop is closed: roostd stops
            work.close()
            raise TimeoutError from error
        try:
            return future.result(PATIENCE_S)
        except concurrent.futures.CancelledError as error:
            raise TimeoutError from error
        except TimeoutError:
            future.cancel()
            raise


def serve_page(state: DaemonState, address: str) -> MetricsServer:
    """Serve the page on HOST:PORT until the process ends or the server is shut down.

    To be called in the daemon's event loop.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    app = PageApp(LiveAnswers(state, asyncio.get_running_loop()))
    try:
        return serve_wsgi(app, address, "page")
    except (OSError, UnicodeError) as error:  # a label of a name that is too long
        why = getattr(error, "strerror", None) or error
        raise ConfigError([f"page.listen: {address}: {why}"]) from error
