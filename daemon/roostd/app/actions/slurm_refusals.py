"""Logs and counts what Slurm refuses, where the next poll of the queue shows the job's state."""

import contextlib
import re
from collections.abc import Iterator

import structlog

from roost_engine.domain.errors import SlurmError, SlurmRefused, SlurmTimeout
from roostd.ops.metrics import Metrics
from roostd.slurm.port import JobNotWaiting

_log = structlog.get_logger(__name__)

_NUMBERS = re.compile(r"[0-9]+")


@contextlib.contextmanager
def logged(metrics: Metrics, operation: str) -> Iterator[None]:
    """Log and count what Slurm refuses; a job that no longer waits is no failure."""
    try:
        yield
    except JobNotWaiting as error:
        _log.info("job_moved_on", operation=operation, error=str(error))
    except SlurmError as error:
        metrics.slurm_failures.labels(operation).inc()
        _log.warning("slurm_failed", operation=operation, error=str(error))


class RepeatedRefusals:
    """Logs what Slurm refuses again and again: each cause once, until it is over.

    Args:
        metrics: counts all of them.
        operation: what is repeated.
    """

    def __init__(self, metrics: Metrics, operation: str) -> None:
        self._metrics, self._operation = metrics, operation
        self._causes: set[str] = set()
        self._count = 0  # since the last success

    @contextlib.contextmanager
    def logged(self) -> Iterator[None]:
        """Log and count what Slurm refuses; at the next success log how often it did."""
        try:
            yield
        except SlurmError as error:
            self._metrics.slurm_failures.labels(self._operation).inc()
            self._count += 1
            if (cause := _cause(error)) not in self._causes:
                self._causes.add(cause)
                _log.warning("slurm_failed", operation=self._operation, error=str(error))
            return
        if self._count:
            _log.info("slurm_works_again", operation=self._operation, failed_count=self._count)
            self._causes, self._count = set(), 0


def _cause(error: SlurmError) -> str:
    """Return what went wrong, without the numbers of jobs and the command."""
    text = str(error)
    if isinstance(error, SlurmRefused | SlurmTimeout):
        text = text.removesuffix(" ".join(error.argv))
    return _NUMBERS.sub("N", text)
