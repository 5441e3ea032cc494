"""Restart costs: the seconds for which a restarted job holds GPUs without making progress.

Work since the last checkpoint is not part of this cost, and the driver does not charge it either.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeAlias

from roost_engine.domain.model import JobId
from roost_sim.worlds.model_sizes import size_of

_MEASURED_RESTART_S = 40.0  # Lucid's re-implementation of Tiresias (ASPLOS 2023), up to 8 GPUs
_MEASURED_LARGE_RESTART_S = 60.0  # and above; Pollux measured about 30 s, Sia 20 to 250 s by model
_MEASURED_UP_TO_GPUS = 8
_CHECKPOINT_COPIES = 3  # of the weights: Adam's two moments are saved with them
_STORAGE_BYTES_PER_S = 1e9  # ours: one client of a shared file system
_DALLY_S_PER_GPU = 1.0

RestartCost: TypeAlias = Callable[[JobId, int], float]
"""(job, its GPUs) to the seconds of a restart."""


def no_restart_cost(job_id: JobId, gpu_count: int) -> float:
    """A preempted job resumes at once, as in several published simulators."""
    return 0.0


class RestartRule(StrEnum):
    """The rule by which a restart costs time."""

    MEASURED = "measured"  # published start-up times, plus writing and reading the checkpoint
    DALLY = "dally"  # 1 s a GPU
    FREE = "free"  # 0 s, as in Blox and in Dally's Gandiva


def restart_s(cost: RestartRule, family: str | None, gpu_count: int) -> float:
    """Return the seconds from the start of a preempted job until it makes progress again.

    Args:
        cost: the rule.
        family: of the job's model; a checkpoint of unknown size counts 0.
        gpu_count: GPUs of the job.
    """
    return _COSTS[cost](family, gpu_count)


def _measured_s(family: str | None, gpu_count: int) -> float:
    is_large = gpu_count > _MEASURED_UP_TO_GPUS
    size = None if family is None else size_of(family)
    checkpoint_bytes = 0 if size is None else size.gradient_bytes * _CHECKPOINT_COPIES
    moved_s = 2 * checkpoint_bytes / _STORAGE_BYTES_PER_S  # written by one node, read by another
    return (_MEASURED_LARGE_RESTART_S if is_large else _MEASURED_RESTART_S) + moved_s


_COSTS: Mapping[RestartRule, Callable[[str | None, int], float]] = {
    RestartRule.MEASURED: _measured_s,
    RestartRule.DALLY: lambda family, gpu_count: _DALLY_S_PER_GPU * gpu_count,
    RestartRule.FREE: lambda family, gpu_count: 0.0,
}
