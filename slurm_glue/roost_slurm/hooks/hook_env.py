"""A hook's environment: the few variables that Slurm sets for it, checked. No other is read."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_ID = re.compile(r"\d{1,10}", re.ASCII)
_NODE = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_MODEL_COUNT = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]{0,63}:(\d{1,4})", re.ASCII)
_REQUESTS = ("SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET")
_INDICES = re.compile(r"\d{1,4}(?:,\d{1,4}){0,127}", re.ASCII)


class HookEnvError(ValueError):
    """A variable that the hook cannot do without is missing or malformed."""


class HookEnv(NamedTuple):
    """The checked variables of one hook.

    Attributes:
        job_id: SLURM_JOB_ID, a number also for array tasks.
        user_id: SLURM_JOB_UID.
        array_task: SLURM_ARRAY_JOB_ID and SLURM_ARRAY_TASK_ID.
        node: SLURMD_NODENAME.
        job_gpus: SLURM_JOB_GPUS. In Prolog and Epilog of 22.05 to 25.05 it names only the GPUs of
            the job's last type, so only one GPU where each GPU has a type of its own.
        step_gpus: SLURM_STEP_GPUS.
        visible_gpus: CUDA_VISIBLE_DEVICES where that is a list of numbers.
        chooses_nics: the user has set NCCL_IB_HCA.
        model_counts: the variables of --gpus and similar options whose value names a GPU model,
            with the count alone, as the job no longer asks for the model: {"SLURM_GPUS": "8"}.
    """

    job_id: int
    user_id: int | None = None
    array_task: tuple[int, int] | None = None
    node: str | None = None
    job_gpus: tuple[int, ...] = ()
    step_gpus: tuple[int, ...] = ()
    visible_gpus: tuple[int, ...] = ()
    chooses_nics: bool = False
    model_counts: Mapping[str, str] = MappingProxyType({})

    @property
    def roost_job_id(self) -> str:
        """The job's id as squeue -r shows it: "123", or "123_7" for a task of an array."""
        return str(self.job_id) if self.array_task is None else "{}_{}".format(*self.array_task)


def parse_env(environ: Mapping[str, str]) -> HookEnv:
    """Read a hook's environment.

    Raises:
        HookEnvError: there is no numeric SLURM_JOB_ID.
    """
    job_id = _number(environ.get("SLURM_JOB_ID", ""))
    if job_id is None:
        raise HookEnvError("SLURM_JOB_ID is missing or no number; cure: let Slurm run the hook")
    array = _number(environ.get("SLURM_ARRAY_JOB_ID", ""))
    task = _number(environ.get("SLURM_ARRAY_TASK_ID", ""))
    node = environ.get("SLURMD_NODENAME", "")
    return HookEnv(
        job_id=job_id,
        user_id=_number(environ.get("SLURM_JOB_UID", "")),
        array_task=None if array is None or task is None else (array, task),
        node=node if _NODE.fullmatch(node) else None,
        job_gpus=_indices(environ.get("SLURM_JOB_GPUS", "")),
        step_gpus=_indices(environ.get("SLURM_STEP_GPUS", "")),
        visible_gpus=_indices(environ.get("CUDA_VISIBLE_DEVICES", "")),
        chooses_nics="NCCL_IB_HCA" in environ,
        model_counts={
            name: match[1]
            for name in _REQUESTS
            if (match := _MODEL_COUNT.fullmatch(environ.get(name, "")))
        },
    )


def _number(text: str) -> int | None:
    return int(text) if _ID.fullmatch(text) else None


def _indices(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if _INDICES.fullmatch(text) else ()
