"""Guards of shared GPUs: jobs that keep a GPU's first seat taken while roostd is away.

Plain Slurm knows nothing of partners: once the job on the first seat of a GPU has ended, Slurm
regards the GPU as free, although a job is still on its second seat. A guard is a job of SlurmUser
that depends on the end of the first job and has the highest priority, so that Slurm gives the first
seat to the guard before any other job. It waits, as a shell script, until the job on the second
seat has ended. While it depends, it is not eligible and keeps no other job from starting.

`roost-slurm unpin` makes guards where the heartbeat is late (roost-unpin.timer, EpilogSlurmctld);
a roostd that runs cancels them. A release that takes no token back from a job has none in the
requests of leased jobs that opted in: they get theirs here, before Slurm starts them unplaced.
"""

import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from roost_slurm.command_run import RunCommand, before_deadline, run_command
from roost_slurm.guards.orphaned_pins import MOST_JOBS
from roost_slurm.hooks import heartbeat
from roost_slurm.text import commands
from roost_slurm.text.commands import Argv
from roost_slurm.text.scontrol import JobDetail, ShownNode, parse_jobs, parse_nodes
from roost_slurm.text.squeue import QueuedJob, parse_queue
from roost_slurm.text.stamp import GUARD, parse_stamp
from roost_slurm.text.tres import (
    SEAT_TOKEN,
    Gres,
    TresError,
    gpu_count,
    gpu_kinds,
    parse_gres,
    prefix_of,
    typed_seat,
)
from roost_slurm.text.versions import parse_version, traits_of

LATE_S = 9  # three beats are missing; job_submit.lua leases jobs for 6 s more
_ENDED = "COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|PREEMPTED|OUT_OF_MEMORY|BOOT_FAIL|DEADLINE"
# Also where slurmctld no longer knows the job; not where slurmctld does not answer.
_SCRIPT = f"""\
while :; do
    told=$(squeue --noheader --jobs={{number}} --states=all --format=%T 2>&1)
    case $told in '' | *nvalid* | {_ENDED} | PENDING | REQUEUED) exit 0 ;; esac
    sleep 5
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """One guard that is needed.

    Attributes:
        guest: Slurm's number of the job on the second seats.
        node, gpus: where that job is.
        after: the jobs that hold the first seats now; none: they are free already.
        partitions: all of that node: a job of any of them could take the GPUs.
        limit_s: the guest's time limit; None: it has none.
    """

    guest: int
    node: str
    gpus: tuple[int, ...]
    after: tuple[int, ...]
    partitions: tuple[str, ...]
    limit_s: float | None

    @property
    def mark(self) -> str:
        """The guard's admin comment."""
        return f"{GUARD} of={self.guest} gpus={','.join(map(str, self.gpus))}"

    @property
    def script(self) -> str:
        """What the guard runs: it ends with its guest."""
        return _SCRIPT.format(number=self.guest)


def is_late(runtime_folder: Path, now_epoch_s: float) -> bool:
    """Return whether the last beat is so old that roostd may be dead."""
    try:
        text = (runtime_folder / "heartbeat").read_text(encoding="ascii", errors="replace")
        return abs(now_epoch_s - heartbeat.parse(text).at_epoch_s) > LATE_S
    except (OSError, heartbeat.HeartbeatError):
        return True  # job_submit.lua leases no job from now on


def guard_seats(
    runtime_folder: Path,
    run: RunCommand = run_command,
    *,
    wall_clock: Callable[[], float] = time.time,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[str]:
    """Submit the missing guards and add the missing tokens. Yields a text for each.

    Nothing happens while roostd is alive, and in a cluster without second seats.

    Raises:
        OSError, subprocess.SubprocessError, UnknownVersion: Slurm does not answer.
    """
    ask = before_deadline(run, clock)

    if not is_late(runtime_folder, wall_clock()):
        return
    nodes = {node.name: node for node in parse_nodes(ask(commands.show_nodes())) if node.has_seats}
    if not nodes:
        return
    jobs = parse_queue(ask(commands.queue())).jobs
    if any(is_guest(job) for job in jobs):
        details = parse_jobs(ask(commands.show_jobs()))
        for guard in needed_guards(jobs, details, nodes)[:MOST_JOBS]:
            yield _submit(guard, ask)
    if not traits_of(parse_version(ask(commands.version()))).can_untype:
        for job in [job for job in jobs if lacks_token(job)][:MOST_JOBS]:
            try:
                ask(token_call(job))
            except subprocess.CalledProcessError:
                continue  # it has started or ended
            yield f"token for {job.job_ids[0]}"


def is_guest(job: QueuedJob) -> bool:
    """Return whether a job runs on second seats."""
    return job.is_holding and any(typed_seat(entries) for _, _, entries in _requests(job))


def is_guard(job: QueuedJob) -> bool:
    """Return whether a job is a guard."""
    return job.admin_comment.startswith(f"{GUARD} ")


def needed_guards(
    jobs: Iterable[QueuedJob], details: Mapping[int, JobDetail], nodes: Mapping[str, ShownNode]
) -> list[Guard]:
    """Return the guards that are missing.

    Args:
        jobs: the queue.
        details: of the jobs that hold GPUs, by number.
        nodes: those with second seats, by name.
    """
    queue = list(jobs)
    known = {job.admin_comment for job in queue if is_guard(job)}
    first: dict[tuple[str, int], int] = {}  # the job on the first seat of each GPU
    for number, one in details.items():
        for held in one.allocated:
            if held.seat == 0:
                first |= {(held.node, gpu): number for gpu in held.gpu_indices}
    found = []
    for job in queue:
        detail = details.get(job.number)
        for held in detail.allocated if detail and is_guest(job) else ():
            if held.seat == 0 or held.node not in nodes:
                continue
            hosts: dict[int | None, list[int]] = {}
            for gpu in held.gpu_indices:
                hosts.setdefault(first.get((held.node, gpu)), []).append(gpu)
            for host, gpus in hosts.items():
                guard = Guard(
                    guest=job.number,
                    node=held.node,
                    gpus=tuple(gpus),
                    after=() if host is None else (host,),
                    partitions=nodes[held.node].partitions,
                    limit_s=job.time_limit_s,
                )
                if guard.mark not in known and not _is_guarded(host, queue):
                    found.append(guard)
    return found


def lacks_token(job: QueuedJob) -> bool:
    """Return whether a leased job that waits for any GPUs could be started on a second seat."""
    if not job.is_pending or parse_stamp(job.admin_comment) is None:
        return False
    entries = [entry for _, _, request in _requests(job) for entry in request]
    asks = gpu_count(entries) and not gpu_kinds(entries)
    return bool(asks) and SEAT_TOKEN not in {entry.name for entry in entries}


def token_call(job: QueuedJob) -> Argv:
    """Build the update that adds a token for each GPU to a request."""
    values = [
        f"{name}={value},{prefix_of(value)}{SEAT_TOKEN}:{count}"
        for name, value, entries in _requests(job)
        if (count := gpu_count(entries))
    ]
    return ("scontrol", "update", f"jobid={commands.job_list(job.job_ids)}", *values)


def _submit(guard: Guard, ask: Callable[[Argv], str]) -> str:
    why = ""
    for partitions in (guard.partitions, ()):  # one that refuses the job refuses it in all
        argv = commands.submit_guard(
            guard.script,
            node=guard.node,
            gpus=guard.gpus,
            after=guard.after,
            partitions=partitions,
            limit_s=guard.limit_s,
        )
        try:
            number = ask(argv).strip().partition(";")[0]
        except subprocess.CalledProcessError as error:
            why = str(error.stderr or error).strip()
            continue
        ask(commands.set_admin_comment([number], guard.mark))
        return f"guard {number} of {guard.guest}"
    return f"no guard of {guard.guest}: {why}"


def _is_guarded(host: int | None, jobs: Iterable[QueuedJob]) -> bool:
    """Return whether the first seats are a guard's already."""
    return any(job.number == host and is_guard(job) for job in jobs)


def _requests(job: QueuedJob) -> Iterator[tuple[str, str, tuple[Gres, ...]]]:
    """Yield the request fields that can be read: name, text and entries."""
    for name, value in job.tres:
        if name.startswith("TresPer"):
            try:
                yield name, value, parse_gres(value)
            except TresError:
                continue
