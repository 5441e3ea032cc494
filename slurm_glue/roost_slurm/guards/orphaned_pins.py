"""Pins that outlive roostd: waiting jobs get their own requests back, so that Slurm starts them.

A job with a standing pin is eligible and waits for exact GPUs. roostd moves the pin when a sooner
place comes free; without roostd the job would wait for these GPUs alone, or for ever where their
node is lost. EpilogSlurmctld runs this as SlurmUser at the end of jobs, while the heartbeat is
stale, and roost-unpin.timer does so all the time: on an idle cluster no job ends. A release that
cannot take types back frees the nodes alone: the job starts on GPUs with these indices of any node.
A job under a lease is left alone: it is eligible only from the end of the lease on.
"""

import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

from roost_slurm.command_run import RunCommand, before_deadline, run_command
from roost_slurm.hooks import heartbeat
from roost_slurm.text import commands
from roost_slurm.text.commands import Argv
from roost_slurm.text.squeue import QueuedJob, parse_queue
from roost_slurm.text.stamp import Stamp, parse_stamp
from roost_slurm.text.tres import TresError, parse_gres, typed_indices
from roost_slurm.text.versions import parse_version, traits_of

MOST_JOBS = 50  # in one run; the next job that ends brings the next run
BETWEEN_S = 10  # the lease between the two updates of a job on several nodes
_HEARTBEAT = re.compile(r'(?m)^local HEARTBEAT = "([^"]+)"')
_REQUEST = frozenset((*commands.REQUEST_FIELDS, "CpusPerTres"))


def unpin_orphans(
    runtime_folder: Path,
    run: RunCommand = run_command,
    *,
    is_of_others: bool = False,
    wall_clock: Callable[[], float] = time.time,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[str]:
    """Give the waiting jobs that roostd left pinned their own requests back. Yields their ids.

    Nothing happens while roostd is alive. Where it is not, the pins of every owner are taken back:
    after a takeover by a backup controller those of the roostd that died with the other host.

    Args:
        runtime_folder: of roostd.
        run: runs Slurm's commands.
        is_of_others: take back pins of other owners than this host and folder, and only those, also
            while the roostd here is alive.
        wall_clock: seconds since the epoch.
        clock: seconds, for the deadline.

    Raises:
        OSError, subprocess.SubprocessError, UnknownVersion: Slurm does not answer.
    """
    ask = before_deadline(run, clock)

    def is_alive() -> bool:
        return not is_of_others and not is_roostd_gone(runtime_folder, wall_clock())

    if is_alive():
        return
    can_untype = traits_of(parse_version(ask(commands.version()))).can_untype
    pending = parse_queue(ask(commands.pending_queue())).jobs
    spared = {"", heartbeat.owner_of(runtime_folder, socket.gethostname())} if is_of_others else ()
    for job in _orphans(pending, spared, wall_clock(), can_untype=can_untype)[:MOST_JOBS]:
        if is_alive():
            return  # it has come back, and takes care of them itself
        try:
            for argv in restore_calls(job) if can_untype else (free_nodes_call(job),):
                ask(argv)
        except subprocess.CalledProcessError:
            continue  # it has started or ended, or its request is refused: the others count
        yield job.job_ids[0]


def _orphans(
    pending: Iterable[QueuedJob], spared: Collection[str], now_epoch_s: float, *, can_untype: bool
) -> list[QueuedJob]:
    """Return the pinned jobs whose request can be restored, the first in Slurm's order first.

    Args:
        pending: the waiting jobs.
        spared: the owners whose pins are left alone.
        now_epoch_s: wall clock.
        can_untype: whether this release can take types back.
    """
    found = [
        job
        for job in pending
        if is_orphan(job, now_epoch_s)
        and (can_untype or _has_nodes_of_pin(job))
        and _owner(job) not in spared
    ]
    return sorted(found, key=lambda job: (-job.priority, job.number))


def is_roostd_gone(runtime_folder: Path, now_epoch_s: float) -> bool:
    """Return whether roostd is dead for as long as job_submit.lua needs to notice it.

    A daemon that stops removes its heartbeat, and may be about to start again: then the folder, in
    which it replaced the file until the end, tells the time of the last beat.
    """
    try:
        text = (runtime_folder / "heartbeat").read_text(encoding="ascii", errors="replace")
        return not heartbeat.parse(text).is_fresh(now_epoch_s)
    except heartbeat.HeartbeatError:
        return True
    except OSError:
        try:
            removed_s = runtime_folder.stat().st_mtime
        except OSError:
            return True
        return abs(now_epoch_s - removed_s) > heartbeat.FRESH_S


def beats_elsewhere(runtime_folder: Path, conf: Path, now_epoch_s: float) -> Path | None:
    """Return the folder of a live roostd that is not the given one; None: no such roostd is known.

    With a wrong folder every pin of a roostd that lives would look like one of a dead roostd.

    Args:
        runtime_folder: where roostd is looked for.
        conf: slurm.conf; job_submit.lua beside it, or Roost's module, names the heartbeat it reads.
        now_epoch_s: now.
    """
    for name in ("job_submit.lua", "roost_job_submit.lua"):
        try:
            text = conf.with_name(name).read_text("utf-8", "replace")
        except OSError:
            continue
        if match := _HEARTBEAT.search(text):
            folder = Path(match[1]).parent
            is_other = os.path.realpath(folder) != os.path.realpath(runtime_folder)
            if is_other and not is_roostd_gone(folder, now_epoch_s):
                return folder
    return None


def is_orphan(job: QueuedJob, now_epoch_s: float) -> bool:
    """Return whether a job waits by a pin and without a lease."""
    return is_eligible(job, now_epoch_s) and waits_pinned(job)


def is_eligible(job: QueuedJob, now_epoch_s: float) -> bool:
    """Return whether neither a lease nor another job keeps a waiting job from starting."""
    return job.eligible_epoch_s is not None and job.eligible_epoch_s <= now_epoch_s


def waits_pinned(job: QueuedJob) -> bool:
    """Return whether a waiting job still has the request that a pin gave it.

    A request that its user has changed since is the user's.
    """
    stamp = parse_stamp(job.admin_comment)
    if not job.is_pending or stamp is None or not stamp.was or len(job.job_ids) != 1:
        return False
    asks, was = _request(job.tres), _request(stamp.was)
    if asks == was:  # only the nodes were chosen, or the request is restored already
        return job.required_nodes != dict(stamp.was).get("ReqNodeList", "")
    return bool(_typed(asks))


def restore_calls(job: QueuedJob) -> tuple[Argv, ...]:
    """Build the updates that restore an orphan's request. The job keeps its age: see commands.

    Slurm cuts a job that starts in the same instant to the nodes of the update, so a job on several
    nodes whose user named nodes is leased between two updates.
    """
    was = dict((parse_stamp(job.admin_comment) or Stamp()).was)
    argv = commands.unpin(
        job.job_ids[0],
        request=list(_request(was.items()).items()),
        required_nodes=was.get("ReqNodeList", ""),
        lease_s=BETWEEN_S,
    )
    if "-" in was.get("NumNodes", ""):  # Slurm takes no range without an upper end
        argv = (*argv, f"NumNodes={was['NumNodes']}")
    argv = commands.without_start(argv)
    if job.node_count > 1 and "ReqNodeList" in was:
        return commands.in_two_steps(argv, BETWEEN_S)
    return (argv,)


def free_nodes_call(job: QueuedJob) -> Argv:
    """Build the update that gives an orphan its user's own node list, and leaves its types."""
    was = dict((parse_stamp(job.admin_comment) or Stamp()).was)
    argv = commands.unpin(
        job.job_ids[0],
        request=[],
        required_nodes=was.get("ReqNodeList", ""),
        lease_s=BETWEEN_S,
    )
    return commands.without_start(argv)


def _owner(job: QueuedJob) -> str:
    return (parse_stamp(job.admin_comment) or Stamp()).owner


def _has_nodes_of_pin(job: QueuedJob) -> bool:
    was = dict((parse_stamp(job.admin_comment) or Stamp()).was)
    return job.required_nodes != was.get("ReqNodeList", "")


def _request(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in fields if name in _REQUEST}


def _typed(request: Mapping[str, str]) -> tuple[int, ...]:
    """Return the GPU indices that a request names; a count of 0 names none."""
    try:
        entries = [entry for value in request.values() for entry in parse_gres(value)]
    except TresError:
        return ()
    return typed_indices(entry for entry in entries if entry.count)
