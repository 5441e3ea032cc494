"""The numbers of the engine."""

from dataclasses import dataclass
from enum import StrEnum


class Passing(StrEnum):
    """Which jobs may pass one that has no room."""

    EASY = "easy"  # those that do not delay it, by the time limits of all
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The numbers of the engine. Page: docs/configuration.md.

    Attributes:
        passing: who may pass the first job in order that has no room and no patience any more.
        patience_s: until it has waited so long, everybody may pass a job.
        start_timeout_s: a placed job that Slurm has not started by then is decided anew.
        stop_timeout_s: a plan for which Slurm has not stopped the victims by then is dropped.
        refusal_backoff_s: pause after the first refusal; doubles with each one.
        refusal_limit: after so many refusals in a row the job is handed back to plain Slurm.
        window_count: how many jobs of the queue one pass tries; the next one goes on from there.
        ended_job_count: how many ended jobs can still be explained.
    """

    passing: Passing = Passing.EASY
    patience_s: float = 600.0
    start_timeout_s: float = 10.0
    stop_timeout_s: float = 60.0
    refusal_backoff_s: float = 2.0
    refusal_limit: int = 6
    window_count: int = 1000
    ended_job_count: int = 1000
