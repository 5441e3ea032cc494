"""Logs and counts what Slurm refuses, where the next poll of the queue shows the job's state."""

import contextlib
from collections.abc import Iterator

import structlog

from roost_engine.domain.errors import SlurmError
from roostd.ops.metrics import Metrics
from roostd.slurm.port import JobNotWaiting

_log = structlog.get_logger(__name__)


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
