"""The access to Slurm that runs Slurm's own commands.

Slurm's libraries change their layout every release, and slurmrestd of 22.05 cannot change a job's
GPUs; the command line works with every release. Only one dump of the queue runs at a time, and at
most one per interval; callers that ask at the same time share it.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from roost_engine.domain.errors import SlurmRefused, SlurmTimeout
from roost_engine.domain.model import JobId, NodeName, Placement
from roost_slurm.guards.seat_guards import is_guard
from roost_slurm.text import commands, sinfo
from roost_slurm.text.commands import Argv
from roost_slurm.text.scontrol import (
    JobDetail,
    Settings,
    parse_config,
    parse_nodes,
    parse_racks,
)
from roost_slurm.text.shadow_question import FirstStart, parse_answer
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roost_slurm.text.stamp import OTHERS, advice, with_eta
from roost_slurm.text.versions import SlurmVersion, Traits, UnknownVersion, parse_version, traits_of
from roostd.ops.failpoint import reach
from roostd.slurm.command import IDS_PER_CALL, CommandRunner, only_gone, update_all
from roostd.slurm.node_reader import read_nodes
from roostd.slurm.port import (
    HELD_STATE,
    JobNotWaiting,
    NodeClosed,
    QuestionUnanswered,
    QueueSnapshot,
    SlurmNode,
)
from roostd.slurm.queue import (
    FRESH_S,
    DetailCache,
    DumpAge,
    EndedLeases,
    MovedBegins,
    begins_of,
    by_begin,
    comments_of,
    with_whole_records,
)
from roostd.slurm.record_reader import RecordReader
from roostd.slurm.request import (
    check_due,
    check_repinnable,
    check_requeuable,
    is_pinned,
    pin_calls,
    unpin_calls,
)
from roostd.slurm.rules.held_back import is_held_by_pin
from roostd.slurm.rules.hidden_nodes import HiddenNodes
from roostd.slurm.rules.rules_reader import RulesReader
from roostd.slurm.rules.site_rules import SiteRules

_LONGEST_LEASE_S = 86_400.0
_RULES_INTERVAL_S = 10.0
_NO_NODES = "No nodes in the system"  # where all nodes are dynamic ones, and none has come yet
_JUDGED = "allocation failure"  # sbatch --test-only: Slurm takes no such job now
_READING_FRAC = 0.1  # of the time: crowds are looked at less often
_DUMP_INTERVAL_S_PER_JOB = 0.25e-3  # so that packing the queue costs slurmctld a few percent
_CANCELLABLE = (SlurmJobState.PENDING, SlurmJobState.RUNNING, SlurmJobState.CONFIGURING)
_MOST_REFUSALS = 3  # of the comments in one announcement


class SlurmCli:
    """Slurm through scontrol and squeue. See SlurmPort.

    Args:
        bin_dir: folder of the commands.
        conf: slurm.conf; None: the commands' default.
        timeout_s: after which a command is killed.
        queue_interval_s: the least time between two dumps of the queue; longer with crowds.
        concurrent_count: the most commands that run at the same time.
        lease_s: returns the length of leases in effect: a later begin time is a user's own.
        rules_interval_s: returns the least time between two readings of the site's rules.
        wall_clock: seconds since the epoch.
        owner: of this daemon's heartbeat: jobs that another daemon has leased are never changed.
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
        rules_interval_s: Callable[[], float] = lambda: _RULES_INTERVAL_S,
        wall_clock: Callable[[], float] = time.time,
        owner: str = "",
    ) -> None:
        self._runner = CommandRunner(bin_dir, conf, timeout_s, concurrent_count)
        self._run = self._runner.run
        self._queue_interval_s, self._wall_clock = queue_interval_s, wall_clock
        self._records = RecordReader(owner)
        self._dump_lock = asyncio.Lock()
        self._next_dump: asyncio.Task[QueueSnapshot] | None = None
        self._last_dump_s = -queue_interval_s
        self._age = DumpAge()
        self._details = DetailCache(self._all_details, self._detail)
        self._rules = RulesReader(lambda argv: self._run(argv), rules_interval_s)
        self._hidden = HiddenNodes()
        self._moved_begins = MovedBegins(lease_s)
        self._ended_leases = EndedLeases()
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
        """Return how this release behaves."""
        return traits_of(await self.version())

    async def settings(self) -> Settings:
        """See SlurmPort."""
        argv = commands.show_config()
        text = await self._run(argv)
        if "ClusterName" not in text:
            raise SlurmRefused(argv, 0, "no ClusterName in it")
        return parse_config(text)

    async def rules(self) -> SiteRules:
        """See SlurmPort."""
        newest_job = max((job.number for job in self._dumped), default=0)
        names = {job.qos for job in self._dumped if job.qos}
        return self._hidden.added_to(await self._rules.read(names, newest_job))

    async def ping(self) -> None:
        """See SlurmPort."""
        argv = commands.ping()
        answer = await self._run(argv)
        if " is UP" not in answer:
            raise SlurmRefused(argv, 0, answer)

    async def nodes(self) -> tuple[SlurmNode, ...]:
        """See SlurmPort."""
        racks = parse_racks(await self._run(commands.show_topology(), may_fail=True))
        argv = commands.show_nodes()
        text = await self._run(argv)
        shown, nodes = await read_nodes(text, racks)
        if not shown and _NO_NODES not in text:
            raise SlurmRefused(argv, 0, "no node in it")
        self._hidden.note(shown)
        return nodes

    async def node_states(self, names: Sequence[NodeName]) -> Mapping[NodeName, str]:
        """See SlurmPort."""
        states = sinfo.parse_node_states(await self._run(sinfo.node_states(names)))
        return {NodeName(name): state for name, state in states.items()}

    def forget_limits(self) -> None:
        """See SlurmPort."""
        self._details.forget_limits()
        self._age.note_change(time.monotonic())  # users have changed jobs

    async def queue(self) -> QueueSnapshot:
        """See SlurmPort."""
        if self._next_dump is None:
            self._next_dump = asyncio.create_task(self._dump())
            # All callers may have been cancelled by the time it fails.
            self._next_dump.add_done_callback(lambda dump: dump.cancelled() or dump.exception())
        return await asyncio.shield(self._next_dump)

    def _left_until_dump_s(self) -> float:
        crowd_s = len(self._dumped) * _DUMP_INTERVAL_S_PER_JOB
        reading_s = self._records.dump_cost_s / _READING_FRAC
        least_s = max(self._queue_interval_s, reading_s, crowd_s)
        return max(0.0, self._last_dump_s + least_s - time.monotonic())

    async def _have_fresh_dump(self) -> None:
        if self._left_until_dump_s() < FRESH_S or not self._age.is_fresh(time.monotonic()):
            await self.queue()

    async def _change(self, argv: Argv) -> str:
        try:
            return await self._run(argv)
        finally:
            self._age.note_change(time.monotonic())

    async def _dump(self) -> QueueSnapshot:
        async with self._dump_lock:
            await asyncio.sleep(self._left_until_dump_s())
            self._next_dump = None  # later callers may know of changes that this dump misses
            self._last_dump_s, at_epoch_s = time.monotonic(), self._wall_clock()
            text = await self._run(argv := commands.queue())
            dump = await self._records.dump(text)
            if dump.malformed_count and not dump.jobs:
                raise SlurmRefused(argv, 0, f"no line of {dump.malformed_count} is a record")
            self._dumped = dump.jobs
            await self._end_guards(dump.jobs)
            jobs = self._moved_begins.stamp(dump.jobs, at_epoch_s)
            await asyncio.sleep(0)  # each of these steps takes some 30 ms for 20,000 jobs
            await self._details.look_up(jobs)
            await asyncio.sleep(0)
            self._begins = begins_of(jobs)
            await asyncio.sleep(0)
            self._ended_leases.seen(jobs, self._begins, at_epoch_s)
            self._age.note_dump(self._last_dump_s, time.monotonic())
            return QueueSnapshot(
                at_epoch_s=at_epoch_s,
                jobs=jobs,
                details={number: detail for number, (_, detail) in self._details.known.items()},
                malformed_count=dump.malformed_count,
            )

    async def _end_guards(self, jobs: Sequence[QueuedJob]) -> None:
        """Cancel the jobs that kept seats taken while no roostd was there; see seat_guards."""
        guards = [str(job.number) for job in jobs if is_guard(job) and job.state in _CANCELLABLE]
        if guards:
            with contextlib.suppress(SlurmRefused, SlurmTimeout):  # the next dump shows those left
                await self._run(commands.cancel(guards[:IDS_PER_CALL]))

    async def pin(
        self,
        job_id: JobId,
        placement: Placement,
        *,
        lease_s: int = 0,
        is_eligible: bool = False,
        beside: Sequence[JobId] = (),
    ) -> None:
        """See SlurmPort."""
        detail, has_seats = await asyncio.gather(self._waiting(job_id), self._check_open(placement))
        self._details.check_unchanged(job_id, detail)
        if beside:
            others = await asyncio.gather(*map(self._detail, beside))
            self._details.check_unedited((detail, *filter(None, others)))
        check_due(job_id, detail, self._wall_clock())
        traits = await self.traits()
        check_repinnable(job_id, detail, placement, traits)
        calls = pin_calls(
            job_id,
            detail,
            placement,
            traits,
            lease_s=lease_s,
            is_eligible=is_eligible,
            has_seats=has_seats,
        )
        try:
            for argv in calls:
                await self._change(argv)
        except SlurmTimeout:
            now = await self._detail(job_id)
            if now is None or not is_pinned(now, placement):
                raise
        reach("after_set")

    async def unpin(self, job_id: JobId, lease_s: int) -> str:
        """See SlurmPort."""
        detail = await self._waiting(job_id)
        for argv in unpin_calls(job_id, detail, await self.traits(), lease_s):
            await self._change(argv)
        return detail.reason

    async def requeue(self, job_id: JobId) -> None:
        """See SlurmPort."""
        check_requeuable(job_id, await self._detail(job_id))
        try:
            await self._change(commands.requeue(job_id))
        except SlurmTimeout:
            now = await self._detail(job_id)
            if now is None or now.state is SlurmJobState.RUNNING:
                raise
        reach("after_requeue")

    async def renew(self, job_ids: Sequence[JobId], lease_s: int) -> None:
        """See SlurmPort."""
        await self._have_fresh_dump()  # a user may have changed the begin time since the last poll
        await asyncio.sleep(0)  # each of these steps takes some 8 ms for 15,000 jobs
        now_s, dumped, begins = self._wall_clock(), self._dumped, self._begins
        ends_s = now_s + lease_s
        leased = self._ended_leases.without(job_ids, dumped, now_s, self._age.began_s)
        await asyncio.sleep(0)
        due = [job_id for job_id in leased if begins.get(job_id, 0) <= ends_s]
        due = with_whole_records(due, dumped)
        await asyncio.sleep(0)
        await update_all(self._run, due, lambda ids: commands.renew(ids, lease_s))
        # Only now: a job that Slurm did not lease would look as if its user had ended the lease.
        self._ended_leases.renewed(due, ends_s, time.monotonic())
        reach("after_renew")

    async def let_start(self, job_ids: Sequence[JobId]) -> None:
        """See SlurmPort."""
        if any("_" in job_id for job_id in job_ids):
            await self._have_fresh_dump()  # a task may have left its array's record since
        now_s = self._wall_clock()
        due = [job_id for job_id in job_ids if self._begins.get(job_id, 0) <= now_s]
        due = with_whole_records(due, self._dumped)
        self._ended_leases.renewed(due, now_s)
        await update_all(self._change, due, commands.let_start)

    async def release(self, job_ids: Sequence[JobId]) -> None:
        """See SlurmPort."""
        await self.queue()  # a user may have changed the begin time since the last poll
        for begin_s, ids in by_begin(job_ids, self._begins, self._wall_clock()).items():
            await update_all(self._change, ids, partial(commands.release, begin_epoch_s=begin_s))

    async def advise(self, job_id: JobId, text: str) -> None:
        """See SlurmPort."""
        detail = await self._waiting(job_id)
        comment = advice(detail.admin_comment, text)
        await self._change(commands.set_admin_comment([job_id], comment))

    async def foretell(self, job_id: JobId, text: str) -> None:
        """See SlurmPort. The comment is read just before: a pin may have saved a request in it."""
        detail = await self._waiting(job_id)
        comment = with_eta(detail.admin_comment, text)
        if comment != detail.admin_comment:
            await self._change(commands.set_admin_comment([job_id], comment))

    async def first_start(self, question: Argv) -> FirstStart | None:
        """See SlurmPort."""
        exit_code, text = await self._runner.ask(question)
        if exit_code and _JUDGED not in text:
            raise QuestionUnanswered(text)
        return parse_answer(text)

    async def announce(self, reasons: Mapping[JobId, str]) -> None:
        """See SlurmPort."""
        await self._have_fresh_dump()  # an older stamp would erase what a pin saved in it
        refusals = list[SlurmRefused]()
        for comment, job_ids in comments_of(self._dumped, reasons).items():
            try:
                write = partial(commands.set_admin_comment, text=comment)
                await update_all(self._change, job_ids, write)
            except SlurmRefused as error:  # of one job, which keeps no reason from the others
                refusals.append(error)
                if len(refusals) >= _MOST_REFUSALS:
                    break  # slurmctld may have gone, and each command then takes seconds
        if refusals:
            raise refusals[-1]

    async def _waiting(self, job_id: JobId) -> JobDetail:
        detail = await self._detail(job_id)
        if detail is None:
            raise JobNotWaiting(job_id, "gone")
        is_held = detail.is_held and not is_held_by_pin(detail.reason, detail.admin_comment)
        if detail.state is not SlurmJobState.PENDING or is_held:
            raise JobNotWaiting(job_id, HELD_STATE if is_held else detail.state.lower())
        if detail.admin_comment.startswith(OTHERS):
            raise JobNotWaiting(job_id, "leased by another roostd")
        return detail

    async def _check_open(self, placement: Placement) -> bool:
        """Check that the nodes still take jobs: the last poll of all nodes may be seconds old.

        Returns:
            Whether their GPUs have second seats.

        Raises:
            NodeClosed: one does not.
        """
        text = await self._run(commands.show_nodes(placement.nodes))
        nodes = parse_nodes(text)
        for node in nodes:
            if not node.is_open:
                raise NodeClosed(node.name, node.state)
        return any(node.has_seats for node in nodes)

    async def _all_details(self, wanted: Collection[int]) -> tuple[int, dict[int, JobDetail]]:
        text = await self._run(commands.show_jobs())
        found = await asyncio.to_thread(self._records.details, text, wanted)
        return text.count("\nJobId=") + 1, found

    async def _detail(self, job_id: str) -> JobDetail | None:
        """Read one job's details; None when the job is gone, or its record is forged."""
        try:
            jobs = self._records.details(await self._run(commands.show_job(job_id)))
        except SlurmRefused as error:
            if only_gone(error):
                return None
            raise
        # For an array's number scontrol shows the array's other tasks too.
        if job_id.isdecimal():
            return jobs.get(int(job_id))
        return next(iter(jobs.values())) if len(jobs) == 1 else None
