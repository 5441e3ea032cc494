"""Shadow questions: when could plain Slurm start a waiting job? `sbatch --test-only` answers.

Slurm judges a job that is like the waiting one and never becomes one: by partitions, nodes,
reservations, licenses, limits and the time limits of running jobs. Each question takes a job number
and, on 22.05 with two nodes, 0.5 ms of slurmctld. Slurm would add the run time of pending jobs with
a higher priority to its answer, whatever they wait for; the question's own priority is above all of
them, so that the answer depends on resources and limits only.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil

from roost_slurm.text.commands import Argv
from roost_slurm.text.hostlist import HostlistError, expand
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.stamp import parse_stamp
from roost_slurm.text.times import parse_time
from roost_slurm.text.tres import GPU, Gres, TresError, parse_gres

SHADOW = "roost:shadow"  # the comment by which job_submit.lua knows a question
_PRIORITY = 4_294_967_290  # above every job's; the next five numbers mean something else to Slurm
_OPTIONS = {
    "TresPerJob": "--gpus",
    "TresPerNode": "--gres",
    "TresPerTask": "--gpus-per-task",
    "TresPerSocket": "--gpus-per-socket",
}
_PER_GPU = {"CpusPerTres": "--cpus-per-gpu", "MemPerTres": "--mem-per-gpu"}
_MIB = 1 << 20
# "a using" since some release between 24.11 and 26.05.
_ANSWER = re.compile(r"Job \d+ to start at (\S+) (?:a )?using \d+ processors on nodes (\S+)")


@dataclass(frozen=True, slots=True)
class FirstStart:
    """Slurm's answer to a shadow question.

    Attributes:
        at_epoch_s: when the job could start.
        nodes: where.
    """

    at_epoch_s: float
    nodes: frozenset[str]


def question(job: QueuedJob, detail: JobDetail, *, can_untype: bool) -> Argv | None:
    """Build the question for a waiting job; None where its request cannot be put as options.

    The request of a pinned job is the one that the pin replaced. Where the release cannot take a
    pin's types back, the question has these types, and any node: so plain Slurm would get the job.

    Args:
        job: the waiting job, or the tasks of an array.
        detail: of it.
        can_untype: whether the Slurm release can take back a pin's types.
    """
    stamp = parse_stamp(job.admin_comment)
    was = dict(stamp.was) if stamp is not None else {}
    present = dict(job.tres)
    kept = {name: present[name] for name in _PER_GPU if name in present}
    request = kept | was if was and can_untype else present
    nodes = was.get("ReqNodeList", "") if was else detail.required_nodes
    try:
        gpus = tuple(_gpu_options(request))
    except TresError:
        return None
    if not gpus:
        return None
    return (
        *("sbatch", "--test-only", "--wrap=:", f"--comment={SHADOW}", f"--priority={_PRIORITY}"),
        *(f"--uid={job.user_id}", f"--partition={job.partition}"),
        *_given("--account", job.account),
        *_given("--qos", job.qos),
        *_size_options(job, detail, request, was),
        *gpus,
        *_memory_options(detail),
        *_given("--time", str(ceil(job.time_limit_s / 60)) if job.time_limit_s else ""),
        *_given("--constraint", job.features),
        *_given("--nodelist", nodes),
        *_given("--exclude", detail.excluded_nodes),
        *_given("--licenses", job.licenses),
    )


def parse_answer(text: str) -> FirstStart | None:
    """Read what `sbatch --test-only` prints; None where that is not the start of a job."""
    match = _ANSWER.search(text)
    if match is None:
        return None
    try:
        at_epoch_s = parse_time(match[1])
        return None if at_epoch_s is None else FirstStart(at_epoch_s, frozenset(expand(match[2])))
    except (HostlistError, ValueError):
        return None


def _size_options(
    job: QueuedJob, detail: JobDetail, request: Mapping[str, str], was: Mapping[str, str]
) -> Iterator[str]:
    least, most = str(detail.min_node_count), detail.max_node_count
    counts = least if most is None else f"{least}-{most}"
    counts = was.get("NumNodes", counts)
    if counts != "1":  # without -N
        yield f"--nodes={counts}"
    if job.task_count >= detail.min_node_count:
        yield f"--ntasks={job.task_count}"
    if job.cpus_per_task is not None and "CpusPerTres" not in request:
        yield f"--cpus-per-task={job.cpus_per_task}"
    if job.tasks_per_node is not None:
        yield f"--ntasks-per-node={job.tasks_per_node}"
    if detail.sockets_per_node is not None:
        yield f"--sockets-per-node={detail.sockets_per_node}"


def _gpu_options(request: Mapping[str, str]) -> Iterator[str]:
    """Yield the options for GPUs; job_submit.lua adds their tokens again.

    Raises:
        TresError: a part of the request cannot be read.
    """
    for name, option in _OPTIONS.items():
        entries = [one for one in parse_gres(request.get(name, "")) if one.name == GPU]
        if entries:
            head = f"{GPU}:" if name == "TresPerNode" else ""
            yield f"{option}={','.join(head + _kind_and_count(one) for one in entries)}"
    for name, option in _PER_GPU.items():
        amount = re.split("[:=]", request.get(name, ""))[-1]
        if amount:
            yield f"{option}={amount}"


def _kind_and_count(gres: Gres) -> str:
    return str(gres.count) if gres.kind is None else f"{gres.kind}:{gres.count}"


def _memory_options(detail: JobDetail) -> Iterator[str]:
    if "MemPerTres" in detail.tres:
        return
    if detail.memory_per_node_bytes is not None:
        yield f"--mem={detail.memory_per_node_bytes // _MIB}M"
    elif detail.memory_per_cpu_bytes is not None:
        yield f"--mem-per-cpu={detail.memory_per_cpu_bytes // _MIB}M"


def _given(option: str, value: str) -> tuple[str, ...]:
    return (f"{option}={value}",) if value else ()
