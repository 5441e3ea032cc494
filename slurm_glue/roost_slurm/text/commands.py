"""The command lines that Roost gives Slurm: pure functions from data to argv.

Argument 0 is the program's bare name; the adapter puts the absolute path there. No shell
ever reads these arguments.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import ceil

from roost_slurm.text.hostlist import compress
from roost_slurm.text.qos import FIELDS as QOS_FIELDS
from roost_slurm.text.squeue import FORMAT
from roost_slurm.text.stamp import RELEASED_STAMP
from roost_slurm.text.tres import SEAT_TOKEN, typed_gpus

Argv = tuple[str, ...]

# The environment of every command, so that times and arrays are printed alike on every site.
ENVIRONMENT = {
    "TZ": "UTC0",  # the zone of printed times and of times in argv
    "LC_ALL": "C",
    "SLURM_TIME_FORMAT": "standard",
    "SLURM_BITSTR_LEN": "0",  # never shorten an array's task list
    # Jobs and nodes of this cluster alone, where FederationParameters=fed_display shows all.
    "SQUEUE_LOCAL": "1",
    "SCONTROL_LOCAL": "1",
    "SINFO_LOCAL": "1",
}
REQUEST_FIELDS = ("TresPerTask", "TresPerSocket", "TresPerJob", "TresPerNode")
# Slurm's own highest: priority/basic gives jobs from 4294901760 on downwards.
HIGHEST_PRIORITY = 4_294_967_293
_JOB_ID = re.compile(r"\d{1,10}(?:[_+]\d{1,10})?", re.ASCII)


def check_job_id(job_id: str) -> str:
    """Return the job id if its form is valid: `123`, `123_7`, `123+1`.

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
    """Dump the queue: see roost_slurm.text.squeue.

    Prints one line for each task of an array: without --array, squeue hides a task that left its
    array's record behind the others. --array-unique would print fewer lines, but is gone since
    24.11.
    """
    return ("squeue", "--noheader", "--all", "--array", "-O", FORMAT)


def pending_queue() -> Argv:
    """Dump the waiting jobs alone, as queue() does."""
    return (*queue(), "--states=PENDING")


def show_jobs() -> Argv:
    """Show every job in detail."""
    return ("scontrol", "-d", "-o", "show", "jobs")


def show_job(job_id: str) -> Argv:
    """Show one job in detail, with the GPU indices that it holds."""
    return ("scontrol", "-d", "-o", "show", "job", check_job_id(job_id))


def show_nodes(names: Sequence[str] = ()) -> Argv:
    """Show some nodes, or every node, those that are FUTURE too."""
    named = [compress(names)] if names else []
    return ("scontrol", "-a", "-F", "-d", "-o", "show", "nodes", *named)


def show_topology() -> Argv:
    """Show switches; exit code 1 where there is no topology."""
    return ("scontrol", "-o", "show", "topology")


def show_config() -> Argv:
    """Show the configuration."""
    return ("scontrol", "show", "config")


def show_partitions() -> Argv:
    """Show every partition, hidden ones too."""
    return ("scontrol", "-a", "-o", "show", "partitions")


def show_reservations() -> Argv:
    """Show the reservations."""
    return ("scontrol", "-o", "show", "reservations")


def show_licenses() -> Argv:
    """Show the licenses."""
    return ("scontrol", "-o", "show", "licenses")


def show_assoc_mgr() -> Argv:
    """Show QoS and associations with their limits, as slurmctld has them in memory."""
    return ("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos")


def show_qos() -> Argv:
    """Ask slurmdbd what slurmctld does not show of a QoS: see roost_slurm.text.qos."""
    return (
        "sacctmgr",
        "--noheader",
        "--parsable2",
        "show",
        "qos",
        f"format={','.join(QOS_FIELDS)}",
    )


def pin(
    job_id: str,
    *,
    nodes: Sequence[str],
    gpu_indices: Sequence[int],
    writes_per_job: bool,
    tokens: Iterable[str] = (),
    has_cpus_per_gpu: bool = False,
    kept_per_task: str = "",
    node_count_changes: bool = False,
    kept_task_count: int | None = None,
    admin_comment: str | None = None,
    prefix: str,
    seat: int = 0,
) -> Argv:
    """Start a waiting job on exactly these GPUs, in one call, without an intermediate state.

    Slurm 22.05 merges an update with the job's request in the same field, and refuses typed beside
    untyped GPUs. So the call writes the typed request to another field and clears the old one: a
    per-node request becomes a per-job request, every other one becomes a per-node request. Later
    releases accept the call too. A refused update, for an unknown node say, changes nothing.

    Args:
        job_id: the waiting job.
        nodes: the nodes to run on, all of them.
        gpu_indices: GPU indices, the same on each node.
        writes_per_job: whether to write to TresPerJob, as for a job whose request is in
            TresPerNode now, and not to TresPerNode.
        tokens: count-only gres that the job takes with each GPU: a limit on `gres/h100` counts
            these, and no longer sees a job whose pin leaves them out.
        has_cpus_per_gpu: whether the job has CpusPerTres, which is cleared: 26.05 would count CPUs
            for one GPU type only and spread the job over more nodes. The resulting CPU count stays.
        kept_per_task: what TresPerTask asks for beside GPUs.
        node_count_changes: whether the job asks for another node count than len(nodes), or a range.
        kept_task_count: task count of a job with --ntasks-per-gpu: 24.11 and later compute it
            again, for one GPU type only, unless the update states it. None: leave it.
        admin_comment: the text to set in the same call; None: leave it.
        prefix: `gres:` or `gres/`, as slurmctld writes the job's present request. With the wrong
            prefix 22.05 ignores the request and still reports success.
        seat: 1: the second seats of these GPUs.
    """
    new_field = "TresPerJob" if writes_per_job else "TresPerNode"
    count = len(nodes) if writes_per_job else 1
    gpus = typed_gpus(gpu_indices, count=count, prefix=prefix, tokens=tokens, seat=seat)
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


def pin_nodes(
    job_id: str,
    *,
    nodes: Sequence[str],
    node_count_changes: bool = False,
    admin_comment: str | None = None,
) -> Argv:
    """Start a waiting job on exactly these nodes; Slurm chooses the GPUs there.

    Typed GPUs have the same indices on each node. Where no index set is free on all of them, only
    the nodes of a job can be chosen.

    Args:
        job_id: the waiting job.
        nodes: the nodes to run on, all of them.
        node_count_changes: whether the job asks for another node count than len(nodes), or a range.
        admin_comment: the text to set in the same call; None: leave it.
    """
    return (
        *_update(job_id),
        f"ReqNodeList={compress(nodes)}",
        *([f"NumNodes={len(nodes)}-{len(nodes)}"] if node_count_changes else []),
        *([f"AdminComment={admin_comment}"] if admin_comment is not None else []),
        "StartTime=now",
    )


def without_start(argv: Argv) -> Argv:
    """Return an update without its begin time: Slurm then leaves a job's age as it is."""
    return tuple(word for word in argv if not word.startswith("StartTime="))


def in_two_steps(argv: Argv, lease_s: int) -> tuple[Argv, Argv]:
    """Split the update of an eligible job on several nodes into two that cannot shrink the job.

    Slurm applies ReqNodeList to a job that has started in the same instant, and cuts it to the
    nodes named (measured on 24.11). The first update has the request, which Slurm refuses for a
    running job, and leases the job, so that it cannot start before the second one names the nodes.
    """
    later = ("ReqNodeList=", "NumNodes=")
    head, words = argv[:3], argv[3:]
    start = [word for word in words if word.startswith("StartTime=")] or ["StartTime=now"]
    request = [word for word in words if not word.startswith((*later, "StartTime="))]
    nodes = [word for word in words if word.startswith(later)]
    return (*head, *request, _start_in(lease_s)), (*head, *nodes, *start)


def unpin(
    job_id: str, *, request: Sequence[tuple[str, str]], required_nodes: str, lease_s: int
) -> Argv:
    """Take a pin back and hold the job again, in one call.

    Args:
        job_id: the pinned job.
        request: the fields that the pin replaced, with their values; empty where the release
            cannot take types back: the job then keeps its types, on any node.
        required_nodes: the user's own -w; "" for none.
        lease_s: length of the new lease, from now.
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


def let_start(job_ids: Iterable[str]) -> Argv:
    """Let Slurm start leased jobs, which keep the stamp of their lease."""
    return ("scontrol", "update", f"jobid={job_list(job_ids)}", "StartTime=now")


def release(job_ids: Iterable[str], begin_epoch_s: int | None = None) -> Argv:
    """Release jobs to Slurm, which starts them as soon as it can, or at the user's begin time.

    The lease stamp is removed too, so that no later daemon takes the jobs up again.
    """
    begin = "now"
    if begin_epoch_s is not None:
        begin = datetime.fromtimestamp(begin_epoch_s, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return (
        "scontrol",
        "update",
        f"jobid={job_list(job_ids)}",
        f"StartTime={begin}",
        f"AdminComment={RELEASED_STAMP}",
    )


def submit_guard(
    script: str,
    *,
    node: str,
    gpus: Iterable[int],
    after: Iterable[int],
    partitions: Sequence[str],
    limit_s: float | None,
) -> Argv:
    """Submit a job that takes the first seats of GPUs before any other job; see seat_guards.

    Args:
        script: what the job runs, for /bin/sh.
        node: where the GPUs are.
        gpus: their indices.
        after: the jobs whose end it waits for.
        partitions: to choose from; none: the default one.
        limit_s: its time limit; None: that of the partition.
    """
    gres = typed_gpus(gpus, tokens=(SEAT_TOKEN,))
    ends = ":".join(map(str, after))
    minutes = ceil((limit_s or 0.0) / 60.0)
    return (
        "sbatch",
        "--parsable",
        "--job-name=roost-guard",
        f"--nodelist={node}",
        "--nodes=1",
        "--ntasks=1",
        "--mem=32M",
        f"--gres={gres}",
        *([f"--dependency=afterany:{ends}"] if ends else []),
        f"--priority={HIGHEST_PRIORITY}",
        *([f"--partition={','.join(partitions)}"] if partitions else []),
        *([f"--time={minutes}"] if minutes else []),
        "--no-requeue",
        "--output=/dev/null",
        "--chdir=/",
        f"--wrap={script}",
    )


def cancel(job_ids: Iterable[str]) -> Argv:
    """Cancel jobs."""
    return ("scancel", *map(check_job_id, job_ids))


def requeue(job_id: str) -> Argv:
    """Stop a running batch job and let it wait again.

    The call is not requeuehold: Slurm gives a requeued job a begin time about two minutes ahead, so
    the job starts by itself even if roostd is gone. A held job would never start.
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
