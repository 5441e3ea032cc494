"""The command lines that Roost gives Slurm: pure functions from data to argv.

Argument 0 is the program's bare name; the adapter puts the absolute path there. Nothing here is
ever seen by a shell.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from roost_slurm.hostlist import compress
from roost_slurm.squeue import FORMAT
from roost_slurm.stamp import LET_GO
from roost_slurm.tres import typed_gpus

Argv = tuple[str, ...]

# Under which commands print times and arrays in a form that is the same everywhere.
ENVIRONMENT = {
    "TZ": "UTC0",  # times are printed, and read from argv, in it
    "LC_ALL": "C",
    "SLURM_TIME_FORMAT": "standard",
    "SLURM_BITSTR_LEN": "0",  # never shorten an array's task list
}
REQUEST_FIELDS = ("TresPerTask", "TresPerSocket", "TresPerJob", "TresPerNode")
_JOB_ID = re.compile(r"\d{1,10}(?:[_+]\d{1,10})?", re.ASCII)


def check_job_id(job_id: str) -> str:
    """Return a job id that is one: `123`, `123_7`, `123+1`.

    Raises:
        ValueError: anything else.
    """
    if not _JOB_ID.fullmatch(job_id):
        raise ValueError(f"{job_id[:100]!r} is no job id; want 123, 123_7 or 123+1")
    return job_id


def version() -> Argv:
    """Print the release of the client commands."""
    return ("scontrol", "--version")


def ping() -> Argv:
    """Ask whether slurmctld answers."""
    return ("scontrol", "ping")


def queue() -> Argv:
    """Dump the queue: see roost_slurm.squeue.

    One line a task of an array: without --array, squeue hides a task that left its array's record
    behind the others. --array-unique would tell the same shorter, but is gone since 24.11.
    """
    return ("squeue", "--noheader", "--all", "--array", "-O", FORMAT)


def show_jobs() -> Argv:
    """Show every job in detail."""
    return ("scontrol", "-d", "-o", "show", "jobs")


def show_job(job_id: str) -> Argv:
    """Show one job in detail, with the GPU indices that it holds."""
    return ("scontrol", "-d", "-o", "show", "job", check_job_id(job_id))


def show_nodes() -> Argv:
    """Show every node."""
    return ("scontrol", "-a", "-d", "-o", "show", "nodes")


def show_topology() -> Argv:
    """Show switches; exit code 1 where there is no topology."""
    return ("scontrol", "-o", "show", "topology")


def show_config() -> Argv:
    """Show the configuration."""
    return ("scontrol", "show", "config")


def pin(
    job_id: str,
    *,
    nodes: Sequence[str],
    gpu_indices: Sequence[int],
    asks_per_node: bool,
    has_cpus_per_gpu: bool = False,
    kept_per_task: str = "",
    node_count_changes: bool = False,
    kept_task_count: int | None = None,
    admin_comment: str | None = None,
    prefix: str,
) -> Argv:
    """Start a waiting job on exactly these GPUs, in one call, so that nothing lies in between.

    22.05 merges an update into the request that the job has in the same field, and refuses typed
    beside untyped GPUs. Into another field, with the old one cleared, the typed request goes in
    the same call: a request a node moves to the job, all others move to the node. Later releases
    take it as well. An update that is refused, for an unknown node for instance, changes nothing.

    Args:
        job_id: whose.
        nodes: where; all of them are used.
        gpu_indices: the same on each node.
        asks_per_node: the job's request is in TresPerNode now.
        has_cpus_per_gpu: it has CpusPerTres, which must go: 26.05 would count CPUs for one GPU type
            only and spread the job over more nodes. The CPU count that it led to stays.
        kept_per_task: what TresPerTask asks for beside GPUs.
        node_count_changes: it asks for another number of nodes than len(nodes), or for a range.
        kept_task_count: of a job with --ntasks-per-gpu: 24.11 and later count its tasks anew, for
            one GPU type only, unless they are said again. None: leave it.
        admin_comment: to be set along with it; None: leave it.
        prefix: `gres:` or `gres/`, as slurmctld writes the job's present request. 22.05 ignores a
            request with the wrong one, and says that all went well.
    """
    new_field = "TresPerJob" if asks_per_node else "TresPerNode"
    gpus = typed_gpus(gpu_indices, count=len(nodes) if asks_per_node else 1, prefix=prefix)
    values = dict.fromkeys(REQUEST_FIELDS, "") | {"TresPerTask": kept_per_task, new_field: gpus}
    return (
        *_update(job_id),
        *(["CpusPerTres="] if has_cpus_per_gpu else []),
        *(f"{name}={value}" for name, value in values.items()),
        f"ReqNodeList={compress(nodes)}",
        *([f"NumNodes={len(nodes)}-{len(nodes)}"] if node_count_changes else []),
        *([f"NumTasks={kept_task_count}"] if kept_task_count is not None else []),
        *([f"AdminComment={admin_comment}"] if admin_comment is not None else []),
        "StartTime=now",
    )


def unpin(
    job_id: str, *, request: Sequence[tuple[str, str]], required_nodes: str, lease_s: int
) -> Argv:
    """Take a pin back and hold the job again, in one call.

    Args:
        job_id: whose.
        request: the fields that the pin replaced, with their values; empty where the release
            cannot take types back: then the job keeps them, on any node.
        required_nodes: the user's own -w; "" none.
        lease_s: from now.
    """
    given = dict(request)
    cleared = [name for name in REQUEST_FIELDS if name not in given] if given else []
    return (
        *_update(job_id),
        *(f"{name}=" for name in cleared),
        *(f"{name}={value}" for name, value in given.items()),
        f"ReqNodeList={required_nodes}",
        _start_in(lease_s),
    )


def renew(job_ids: Iterable[str], lease_s: int) -> Argv:
    """Hold jobs for this long from now, hundreds in one call.

    Tasks of one array are named together, so that Slurm keeps them in one record.
    """
    return ("scontrol", "update", f"jobid={job_list(job_ids)}", _start_in(lease_s))


def let_go(job_ids: Iterable[str], begin_epoch_s: int | None = None) -> Argv:
    """Hand jobs back to plain Slurm, which starts them as soon as it can, or at the user's begin.

    The lease stamp goes too, so that no later daemon takes them up again.
    """
    begin = "now"
    if begin_epoch_s is not None:
        begin = datetime.fromtimestamp(begin_epoch_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return (
        "scontrol",
        "update",
        f"jobid={job_list(job_ids)}",
        f"StartTime={begin}",
        f"AdminComment={LET_GO}",
    )


def requeue(job_id: str) -> Argv:
    """Stop a running batch job and let it wait again.

    Not requeuehold: Slurm gives a requeued job a begin about two minutes ahead, so it starts by
    itself though nobody cares for it any more. A held one would never.
    """
    return ("scontrol", "requeue", check_job_id(job_id))


def set_admin_comment(job_ids: Iterable[str], text: str) -> Argv:
    """Write one admin comment for jobs, hundreds in one call.

    Raises:
        ValueError: the text has control characters, which would forge lines elsewhere.
    """
    if not text.isprintable():
        raise ValueError(f"{text[:100]!r}: control characters do not belong in an admin comment")
    return ("scontrol", "update", f"jobid={job_list(job_ids)}", f"AdminComment={text}")


def job_list(job_ids: Iterable[str]) -> str:
    """Join ids for scontrol: `5_[1,3-4],7`."""
    singles: list[str] = []
    tasks: dict[str, list[int]] = {}
    for job_id in job_ids:
        array, underscore, task = check_job_id(job_id).partition("_")
        if underscore:
            tasks.setdefault(array, []).append(int(task))
        else:
            singles.append(job_id)
    return ",".join([*singles, *(f"{array}_[{_ranges(ids)}]" for array, ids in tasks.items())])


def _ranges(numbers: Iterable[int]) -> str:
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def _update(job_id: str) -> Argv:
    return ("scontrol", "update", f"jobid={check_job_id(job_id)}")


def _start_in(lease_s: int) -> str:
    if lease_s <= 0:
        raise ValueError(f"a lease of {lease_s} s would release the job")
    return f"StartTime=now+{lease_s}"
