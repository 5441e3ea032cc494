"""Slurm as the daemon sees it: a Protocol, and the one that runs Slurm's own commands.

The commands' libraries change their layout every release, and slurmrestd of 22.05 cannot change a
job's GPUs: the command line is what works everywhere. The queue is dumped once at a time and once
an interval, whoever asks.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from roost_slurm import commands
from roost_slurm.commands import Argv
from roost_slurm.hostlist import expand
from roost_slurm.scontrol import (
    JobDetail,
    Settings,
    parse_config,
    parse_jobs,
    parse_nodes,
    parse_racks,
)
from roost_slurm.squeue import JobState, QueuedJob, parse_queue
from roost_slurm.stamp import Stamp, advice, parse_stamp
from roost_slurm.tres import parse_gres, prefix_of, typed_indices, without_gres
from roost_slurm.versions import SlurmVersion, Traits, UnknownVersion, parse_version, traits_of
from roostd.adapters.slurm_command import CommandRunner, only_gone
from roostd.adapters.slurm_queue import (
    DetailCache,
    MovedBegins,
    begins_of,
    by_begin,
    comments_of,
)
from roostd.core.errors import SlurmError, SlurmRefused, SlurmTimeout
from roostd.core.model import JobId, NodeName, NodeShare, NodeSpec, Placement
from roostd.failpoint import reach

_LONGEST_LEASE_S = 86_400.0
_IDS_PER_CALL = 400  # stays far below the kernel's limit for one argument, 128 KiB
_REQUEST_FIELDS = (*commands.REQUEST_FIELDS, "CpusPerTres")


class JobNotWaiting(SlurmError):
    """A job that should be placed is no longer waiting; carries what it is instead."""

    def __init__(self, job_id: JobId, state: str) -> None:
        super().__init__(f"job {job_id} is {state}, not waiting")
        self.job_id, self.state = job_id, state


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """A node: what the engine needs to know, and what only people do."""

    spec: NodeSpec
    state: str  # in full: "idle", "mixed+drain"
    reason: str
    cpu_allocated_count: int
    memory_allocated_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """The queue at one moment.

    Attributes:
        at_epoch_s: when it was asked for; anything that happened before is in it.
        details: by record number; one may be missing until a later snapshot.
        malformed_count: lines that were no records.
    """

    at_epoch_s: float
    jobs: tuple[QueuedJob, ...]
    details: Mapping[int, JobDetail] = field(default_factory=dict)
    malformed_count: int = 0


class SlurmPort(Protocol):
    """What the daemon asks of Slurm. Every method may raise SlurmTimeout or SlurmRefused."""

    async def version(self) -> SlurmVersion:
        """The release."""

    async def settings(self) -> Settings:
        """What slurm.conf says now."""

    async def ping(self) -> None:
        """Return if slurmctld answers.

        Raises:
            SlurmError: it does not.
        """

    async def nodes(self) -> tuple[SlurmNode, ...]:
        """Every node that has GPUs."""

    async def queue(self) -> QueueSnapshot:
        """The queue, as of now or later; calls that come together share one dump."""

    async def allocation(self, job_id: JobId) -> tuple[NodeShare, ...]:
        """What a job holds now; empty when it holds nothing or is gone."""

    async def pin(self, job_id: JobId, placement: Placement) -> None:
        """Make Slurm start a waiting job on exactly these GPUs, now.

        In one call: the job is either untouched or asks for the placement, also when this process
        dies meanwhile.

        Raises:
            JobNotWaiting: it is not there to be placed.
            SlurmRefused: Slurm will not; the job is as it was.
            SlurmTimeout: no answer, and the job is as it was.
        """

    async def unpin(self, job_id: JobId, lease_s: int) -> str:
        """Take back a pin that Slurm has not acted on, and hold the job again.

        Returns:
            Slurm's reason for not starting it.

        Raises:
            JobNotWaiting: it started after all, or is gone.
        """

    async def requeue(self, job_id: JobId) -> None:
        """Ask Slurm to stop a running job, which then waits again. Returns before it has.

        Whatever becomes of this process: the job starts again by itself about two minutes later,
        unless a lease or a pin says otherwise.

        Raises:
            SlurmRefused: Slurm will not, or the job is none of Roost's; it runs on.
            SlurmTimeout: no answer, and the job runs on so far.
        """

    async def renew(self, job_ids: Sequence[JobId], lease_s: int) -> None:
        """Hold these jobs for lease_s from now. Jobs that are gone are passed over.

        So are those whose users asked for a later begin: it is never shortened.
        """

    async def let_go(self, job_ids: Sequence[JobId]) -> None:
        """Let plain Slurm start these jobs; a user's own later begin time is kept."""

    async def advise(self, job_id: JobId, text: str) -> None:
        """Write advice into the job's admin comment, beside the lease stamp."""

    async def announce(self, sentences: Mapping[JobId, str]) -> None:
        """Say in admin comments what leased jobs wait for, those that say the same in one call.

        Nothing is asked of Slurm for those that say it already. Tasks that share an array's record
        share its comment: one of their sentences.
        """


class SlurmCli:
    """Slurm through scontrol and squeue. See SlurmPort.

    Args:
        bin_dir: where the commands are.
        conf: slurm.conf; None: the commands' default.
        timeout_s: after which a command is killed.
        queue_interval_s: the least time between two dumps of the queue.
        concurrent_count: commands that run at the same time.
        lease_s: asks for the lease that holds now: a later begin is a user's own.
    """

    def __init__(
        self,
        bin_dir: Path = Path("/usr/bin"),
        conf: Path | None = None,
        *,
        timeout_s: float = 10.0,
        queue_interval_s: float = 0.05,
        concurrent_count: int = 4,
        lease_s: Callable[[], float] = lambda: _LONGEST_LEASE_S,
    ) -> None:
        self._run = CommandRunner(bin_dir, conf, timeout_s, concurrent_count).run
        self._queue_interval_s = queue_interval_s
        self._dump_lock = asyncio.Lock()
        self._next_dump: asyncio.Task[QueueSnapshot] | None = None
        self._last_dump_s = -queue_interval_s
        self._details = DetailCache(self._all_details, self._detail)
        self._moved_begins = MovedBegins(lease_s)
        self._begins: dict[JobId, int] = {}  # of jobs whose users asked for a begin time
        self._dumped: tuple[QueuedJob, ...] = ()  # the last dump as it was
        self._version: SlurmVersion | None = None

    async def version(self) -> SlurmVersion:
        """See SlurmPort."""
        if self._version is None:
            argv = commands.version()
            text = await self._run(argv)
            try:
                self._version = parse_version(text)
            except UnknownVersion as error:
                raise SlurmRefused(argv, 0, str(error)) from error
        return self._version

    async def traits(self) -> Traits:
        """How this release behaves."""
        return traits_of(await self.version())

    async def settings(self) -> Settings:
        """See SlurmPort."""
        return parse_config(await self._run(commands.show_config()))

    async def ping(self) -> None:
        """See SlurmPort."""
        argv = commands.ping()
        answer = await self._run(argv)
        if " is UP" not in answer:
            raise SlurmRefused(argv, 0, answer)

    async def nodes(self) -> tuple[SlurmNode, ...]:
        """See SlurmPort."""
        racks = parse_racks(await self._run(commands.show_topology(), may_fail=True))
        shown = parse_nodes(await self._run(commands.show_nodes()))
        return tuple(
            SlurmNode(
                spec=NodeSpec(
                    name=NodeName(node.name),
                    gpu_count=node.gpu_count,
                    cpu_count=node.cpu_count,
                    memory_bytes=node.memory_bytes,
                    partitions=node.partitions,
                    rack=racks.get(node.name, ""),
                    features=node.features,
                    usable=node.is_open,
                ),
                state=node.state,
                reason=node.reason,
                cpu_allocated_count=node.cpu_allocated_count,
                memory_allocated_bytes=node.memory_allocated_bytes,
            )
            for node in shown
            if node.gpu_count
        )

    async def queue(self) -> QueueSnapshot:
        """See SlurmPort."""
        if self._next_dump is None:
            self._next_dump = asyncio.create_task(self._dump())
            # Everybody who asked may have been cancelled when it fails.
            self._next_dump.add_done_callback(lambda dump: dump.cancelled() or dump.exception())
        return await asyncio.shield(self._next_dump)

    async def _dump(self) -> QueueSnapshot:
        async with self._dump_lock:
            due_s = self._last_dump_s + self._queue_interval_s
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            self._next_dump = None  # who asks from here on may know more than this dump will
            self._last_dump_s, at_epoch_s = time.monotonic(), time.time()
            argv = commands.queue()
            text = await self._run(argv)
            dump = parse_queue(text)
            if dump.malformed_count and not dump.jobs:
                raise SlurmRefused(argv, 0, f"no line of {dump.malformed_count} is a record")
            self._dumped = dump.jobs
            jobs = self._moved_begins.stamp(dump.jobs, at_epoch_s)
            await self._details.look_up(jobs)
            self._begins = begins_of(jobs)
            return QueueSnapshot(
                at_epoch_s=at_epoch_s,
                jobs=jobs,
                details={number: detail for number, (_, detail) in self._details.known.items()},
                malformed_count=dump.malformed_count,
            )

    async def allocation(self, job_id: JobId) -> tuple[NodeShare, ...]:
        """See SlurmPort."""
        detail = await self._detail(job_id)
        return shares_of(detail) if detail else ()

    async def pin(self, job_id: JobId, placement: Placement) -> None:
        """See SlurmPort."""
        detail = await self._waiting(job_id)
        self._check_unchanged(job_id, detail)
        argv = pin_argv(job_id, detail, placement)
        try:
            await self._run(argv)
        except SlurmTimeout:
            now = await self._detail(job_id)
            if now is None or not _is_pinned(now, placement):
                raise
        reach("after_set")

    async def unpin(self, job_id: JobId, lease_s: int) -> str:
        """See SlurmPort."""
        detail = await self._waiting(job_id)
        await self._run(unpin_argv(job_id, detail, await self.traits(), lease_s))
        return detail.reason

    async def requeue(self, job_id: JobId) -> None:
        """See SlurmPort."""
        check_requeuable(job_id, await self._detail(job_id))
        try:
            await self._run(commands.requeue(job_id))
        except SlurmTimeout:
            now = await self._detail(job_id)
            if now is None or now.state is JobState.RUNNING:
                raise
        reach("after_requeue")

    async def renew(self, job_ids: Sequence[JobId], lease_s: int) -> None:
        """See SlurmPort."""
        await self.queue()  # a user may have moved his begin since the last look
        ends_s = time.time() + lease_s
        due = [job_id for job_id in job_ids if self._begins.get(job_id, 0) <= ends_s]
        await self._for_all(due, lambda ids: commands.renew(ids, lease_s))
        reach("after_renew")

    async def let_go(self, job_ids: Sequence[JobId]) -> None:
        """See SlurmPort."""
        await self.queue()  # a user may have moved his begin since the last look
        for begin_s, ids in by_begin(job_ids, self._begins, time.time()).items():
            await self._for_all(ids, partial(commands.let_go, begin_epoch_s=begin_s))

    async def advise(self, job_id: JobId, text: str) -> None:
        """See SlurmPort."""
        detail = await self._waiting(job_id)
        comment = advice(detail.admin_comment, text)
        await self._run(commands.set_admin_comment([job_id], comment))

    async def announce(self, sentences: Mapping[JobId, str]) -> None:
        """See SlurmPort."""
        await self.queue()  # a stamp of before a pin would take back what the pin replaced
        for comment, job_ids in comments_of(self._dumped, sentences).items():
            await self._for_all(job_ids, partial(commands.set_admin_comment, text=comment))

    async def _for_all(
        self, job_ids: Sequence[JobId], argv_of: Callable[[Sequence[JobId]], Argv]
    ) -> None:
        """Update many jobs. scontrol goes on behind a job that it cannot find."""
        for start in range(0, len(job_ids), _IDS_PER_CALL):
            try:
                await self._run(argv_of(job_ids[start : start + _IDS_PER_CALL]))
            except SlurmRefused as error:
                if not only_gone(error):
                    raise

    async def _waiting(self, job_id: JobId) -> JobDetail:
        detail = await self._detail(job_id)
        if detail is None:
            raise JobNotWaiting(job_id, "gone")
        if detail.state is not JobState.PENDING or detail.is_held:
            raise JobNotWaiting(job_id, "held" if detail.is_held else detail.state.lower())
        return detail

    def _check_unchanged(self, job_id: JobId, detail: JobDetail) -> None:
        """Refuse to place a job by what it asked for before its user changed it.

        squeue tells of some changes only: not of -x, --mem or the most nodes.

        Raises:
            SlurmRefused: it asks for something else; the next dump has it.
        """
        key, known = self._details.known.get(detail.number, (None, detail))
        if known.admin_comment == detail.admin_comment and _asked(known) != _asked(detail):
            self._details.known[detail.number] = key, detail
            raise SlurmRefused(commands.show_job(job_id), 0, "its user has changed what it asks")

    async def _all_details(self) -> dict[int, JobDetail]:
        return parse_jobs(await self._run(commands.show_jobs()))

    async def _detail(self, job_id: str) -> JobDetail | None:
        """Ask for one job; None when it is gone, or its record is forged."""
        try:
            jobs = parse_jobs(await self._run(commands.show_job(job_id)))
        except SlurmRefused as error:
            if only_gone(error):
                return None
            raise
        # Asked for an array's number, scontrol shows its other tasks too.
        if job_id.isdecimal():
            return jobs.get(int(job_id))
        return next(iter(jobs.values())) if len(jobs) == 1 else None


def check_requeuable(job_id: JobId, detail: JobDetail | None) -> None:
    """Refuse to stop a job that Roost could not care for afterwards.

    Raises:
        SlurmRefused: it does not run, or has no lease stamp: plain Slurm would start it again.
    """
    if detail is None or detail.state is not JobState.RUNNING:
        is_what = "gone" if detail is None else detail.state.lower()
        raise SlurmRefused(commands.show_job(job_id), 0, f"job {job_id} is {is_what}, not running")
    if parse_stamp(detail.admin_comment) is None:
        raise SlurmRefused(commands.show_job(job_id), 0, f"job {job_id} was not placed by Roost")


def pin_argv(job_id: JobId, detail: JobDetail, placement: Placement) -> Argv:
    """Build the update that pins a job as it is now.

    Raises:
        SlurmRefused: the job asks for no GPUs, so that there is no telling how this Slurm spells
            a request.
    """
    request = [(name, value) for name, value in detail.tres.items() if name in _REQUEST_FIELDS]
    spelled = [value for name, value in request if name != "CpusPerTres" and prefix_of(value)]
    if not spelled:
        raise SlurmRefused(commands.show_job(job_id), 0, f"job {job_id} asks for no GPUs")
    stamp = parse_stamp(detail.admin_comment) or Stamp()
    node_count = len(placement.nodes)
    asked_nodes = (detail.min_node_count, detail.max_node_count)
    was = [
        *request,
        *([("ReqNodeList", detail.required_nodes)] if detail.required_nodes else []),
        *([("NumNodes", _node_range(asked_nodes))] if asked_nodes != (node_count,) * 2 else []),
    ]
    return commands.pin(
        job_id,
        nodes=placement.nodes,
        gpu_indices=placement.gpu_indices,
        asks_per_node="TresPerNode" in detail.tres,
        has_cpus_per_gpu="CpusPerTres" in detail.tres,
        kept_per_task=without_gres(detail.tres.get("TresPerTask", "")),
        # For --gpus=16 without -N, 24.11 shows the two nodes it reckons with, but takes one.
        node_count_changes=node_count > 1 or asked_nodes not in ((1, None), (1, 1)),
        kept_task_count=detail.task_count if detail.has_tasks_per_gpu else None,
        admin_comment=str(stamp.pinned_from(tuple(was))),
        prefix=prefix_of(spelled[0]),
    )


def unpin_argv(job_id: JobId, detail: JobDetail, traits: Traits, lease_s: int) -> Argv:
    """Build the update that takes back a job's pin, as far as the release can."""
    was = (parse_stamp(detail.admin_comment) or Stamp()).was
    request = [(name, value) for name, value in was if name in _REQUEST_FIELDS]
    return commands.unpin(
        job_id,
        request=request if traits.can_untype else [],
        required_nodes=dict(was).get("ReqNodeList", ""),
        lease_s=lease_s,
    )


def shares_of(detail: JobDetail) -> tuple[NodeShare, ...]:
    """Turn what Slurm says a job holds into the engine's terms."""
    return tuple(
        NodeShare(NodeName(node.node), node.gpu_indices, node.cpu_count, node.memory_bytes)
        for node in detail.allocated
    )


def _node_range(counts: tuple[int, int | None]) -> str:
    return str(counts[0]) if counts[1] is None else f"{counts[0]}-{counts[1]}"


def difference(placement: Placement, shares: Iterable[NodeShare]) -> str | None:
    """Say how what a job got differs from what was chosen; None when it does not."""
    got = {share.node: share.gpu_indices for share in shares}
    wanted = dict(placement.by_node())
    if got == wanted:
        return None
    return f"chosen {_spell(wanted)}, allocated {_spell(got)}"


def _spell(gpus: Mapping[NodeName, tuple[int, ...]]) -> str:
    return " ".join(f"{n}:{','.join(map(str, gpus[n]))}" for n in sorted(gpus)) or "nothing"


def _is_pinned(detail: JobDetail, placement: Placement) -> bool:
    if detail.allocated:
        return difference(placement, shares_of(detail)) is None
    asked = [
        typed_indices(parse_gres(detail.tres[name]))
        for name in ("TresPerNode", "TresPerJob")
        if name in detail.tres
    ]
    nodes = expand(detail.required_nodes)
    return asked == [placement.gpu_indices] and sorted(nodes) == sorted(placement.nodes)


def _asked(detail: JobDetail) -> object:
    return (
        detail.tres,
        detail.min_node_count,
        detail.max_node_count,
        detail.required_nodes,
        detail.excluded_nodes,
        detail.memory_per_node_bytes,
        detail.memory_per_cpu_bytes,
        detail.is_exclusive,
    )
