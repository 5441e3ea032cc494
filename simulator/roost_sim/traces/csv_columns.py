"""Columns of CSV traces: what each is called in Roost's own tables and in public ones.

The public names: Helios' cluster_log.csv has gpu_num, node_num, state, submit_time and duration
(S-Lab HeliosData README), and Acme's have the same; the tables that others cut from Philly have
num_gpus and submit_time. Alibaba's (clusterdata READMEs): PAI 2020 has inst_num and plan_gpu, in
hundredths of a GPU; the GPU cluster of 2023 has num_gpu, gpu_milli, creation_time, scheduled_time
and deletion_time; the spot cluster of 2026 has gpu_request and worker_num.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roost_sim.errors import TraceError
from roost_sim.traces.trace import LABELS

NAMES = {
    "submit": ("submit_s",),
    "submit_time": ("submit_time", "submit_time_local", "creation_time", "time_submit"),
    "duration": ("duration_s", "duration"),
    "start": ("start_s", "start_time", "scheduled_time", "time_start"),
    "end": ("end_s", "end_time", "deletion_time", "finish_time", "time_end"),
    "gpus": ("num_gpus", "gpu_num", "gpu_count", "num_gpu", "gpu_request", "gpus"),
    "gpu_percent": ("plan_gpu",),
    "gpu_milli": ("gpu_milli",),
    "instances": ("num_inst", "inst_num", "worker_num"),
    "nodes": ("num_nodes", "node_num", "node_count"),
    "user": ("user",),
    "model": ("model",),
    "status": ("status", "state", "pod_phase"),
    "job_name": ("job_name", "jobname"),
    "account": ("account",),
    "vc": ("vc", "organization"),
    "partition": ("partition",),
    "qos": ("qos",),
    "time_limit": ("time_limit_s", "req_walltime_s"),
    "slurm_limit": ("time_limit", "timelimit"),
    "wait": ("wait_s",),
    "is_array": ("is_array",),
}
_LABEL_KEYS = {label: (label,) for label in LABELS} | {"account": ("account", "vc")}


@dataclass(frozen=True, slots=True)
class Columns:
    """The position of each quantity in a row; None: the file does not have it.

    Attributes:
        width: how many columns there are.
        submit: seconds from any origin.
        submit_time: a date and time, or seconds.
        duration: where it is unknown, `start` and `end` are known.
        start: a date and time, or seconds; stands for the submission where that is unknown.
        end: likewise.
        gpus: GPUs of one instance; where it is unknown, `gpu_percent` is known.
        gpu_percent: hundredths of a GPU of one instance.
        gpu_milli: thousandths of each of its GPUs that an instance has.
        instances: how many of them a job has.
        labels: the columns of each label of a trace, the preferred one first: a virtual cluster
            (`vc`) stands for the account where there is none.
        time_limit: in seconds.
        slurm_limit: in one of Slurm's forms, if there is none in seconds.
    """

    width: int
    submit: int | None
    submit_time: int | None
    duration: int | None
    start: int | None
    end: int | None
    gpus: int | None
    gpu_percent: int | None
    gpu_milli: int | None
    instances: int | None
    nodes: int | None
    user: int | None
    model: int | None
    status: int | None
    labels: Mapping[str, tuple[int, ...]]
    time_limit: int | None
    slurm_limit: int | None
    wait: int | None
    is_array: int | None

    @property
    def has_whole_gpus(self) -> bool:
        """Whether `gpus` alone says how many GPUs a job has."""
        return (self.gpu_percent, self.gpu_milli, self.instances) == (None, None, None)


def find_columns(header: Sequence[str], source: str) -> Columns:
    """Find the columns of a header line.

    Raises:
        TraceError: names the missing column and what it may be called, or the column that stands
            there twice.
    """
    names = [name.strip().lower() for name in header]
    used = {name for options in NAMES.values() for name in options}
    for name in names:
        if name in used and names.count(name) > 1:
            raise TraceError(source, 1, f"the header has {names.count(name)} columns {name}")
    position = {name: index for index, name in enumerate(names)}
    found = {
        key: next((position[name] for name in options if name in position), None)
        for key, options in NAMES.items()
    }
    for needed, wanted in (
        (("submit", "submit_time", "start"), "submit_s or submit_time"),
        (("duration", "end"), "duration_s or duration"),
        (("gpus", "gpu_percent"), "num_gpus, gpu_num or gpu_count"),
    ):
        if all(found[key] is None for key in needed):
            raise _missing(wanted, header, source)
    if found["duration"] is None and found["start"] is None:
        raise _missing(
            "start_s or start_time, which an end needs without a duration,", header, source
        )
    labels = {
        label: tuple(index for key in keys if (index := found.pop(key, None)) is not None)
        for label, keys in _LABEL_KEYS.items()
    }
    return Columns(width=len(header), labels=labels, **found)


def _missing(wanted: str, header: Sequence[str], source: str) -> TraceError:
    names = ", ".join(name.strip() for name in header)[:200]
    there = f"the header: {names}" if names else "the header, which is empty"
    return TraceError(source, 1, f"no column {wanted} in {there}")
