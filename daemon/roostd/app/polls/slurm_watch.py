"""Polls Slurm: soon after the spool reports a change there, and at an interval for safety."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import structlog

from roost_engine.domain.errors import SlurmError
from roost_engine.domain.events import Event, NodeLost
from roost_engine.domain.model import JobId, NodeName
from roost_slurm.text.versions import UnknownVersion, traits_of, untried
from roostd.app.decision.earlier_waits import since_submission
from roostd.app.polls import snapshot_reading
from roostd.app.polls.awaited_changes import AwaitedChanges
from roostd.app.polls.held_pins import HeldPins
from roostd.app.polls.job_readings import job_reader, settings_of_reads
from roostd.app.polls.leased_jobs import LeasedJobs
from roostd.app.polls.node_returns import NodeReturns
from roostd.app.polls.operator_view import OperatorView
from roostd.app.polls.poll_schedule import PollSchedule
from roostd.app.polls.seen_limits import SeenLimits
from roostd.app.polls.seen_nodes import SeenNodes
from roostd.app.polls.short_runs import ShortRuns
from roostd.app.polls.snapshot_reading import Rereading, SnapshotReader, SnapshotReading
from roostd.app.polls.spool_follower import SpoolFollower
from roostd.ops.metrics import Metrics
from roostd.slurm.jobs import JobReader
from roostd.slurm.port import QueueSnapshot, SlurmPort
from roostd.slurm.precedence import SeenPriorities, observe, resumed
from roostd.slurm.queue_reading import LEFT_BY_LIMIT
from roostd.slurm.queue_view import PendingJob, SiteView, SlurmQueueView
from roostd.slurm.rules.opt_in import nodes_outside
from roostd.slurm.rules.site_rules import SiteRules
from roostd.slurm.sync import diff_nodes, introduce
from roostd.state import SLOW_ANSWER_S, DaemonState

_log = structlog.get_logger(__name__)

_MOST_DUMP_S = 0.25  # counts as cost: 1.7 s without a poll, and a job's first lease is 5 s


class SlurmWatch:
    """Turns Slurm's queue and nodes into events.

    Args:
        slurm: the cluster.
        state: receives what the engine does not need: node states, versions, faults, owners.
        metrics: counts.
        emit: takes the events.
        release: takes, after each poll, all jobs that only a lease keeps waiting though Roost will
            not place them; see Applier.release_needless.
        spool_folder: where job_submit.lua and the controller's hooks write their lines.
        adopt: see LeasedJobs.
        short_runs: reviews each poll.

    Attributes:
        spool, returns: schedule polls; each is run by a task of its own.
        clock_was_set: set when the wall clock was: leases have other lengths than they were given.
    """

    def __init__(
        self,
        slurm: SlurmPort,
        state: DaemonState,
        metrics: Metrics,
        emit: Callable[[Event], None],
        release: Callable[[Sequence[JobId]], None],
        spool_folder: Path,
        adopt: Callable[[Iterable[JobId], Iterable[JobId]], None] = lambda pinned, eligible: None,
        short_runs: ShortRuns | None = None,
    ) -> None:
        self._slurm, self._state, self._metrics, self._emit = slurm, state, metrics, emit
        self._leased = LeasedJobs(state, release, adopt)
        self._operator_view = OperatorView(state)
        self._rereading = Rereading(self._operator_view, self._leased)
        self._schedule = PollSchedule()
        self.short_runs = short_runs or ShortRuns(state)
        self._awaited = AwaitedChanges(
            self._schedule, slurm.forget_limits, self.short_runs.is_opened
        )
        self._reading = asyncio.Lock()  # of a long queue in a thread
        self.spool = SpoolFollower(spool_folder, state, self._awaited)
        self._view = SlurmQueueView()
        self._snapshot = QueueSnapshot(at_epoch_s=0.0, jobs=())
        self._nodes = SeenNodes()
        self.returns = NodeReturns(slurm, state, self._nodes, self.poll_nodes)
        self._reader: JobReader | None = None
        self._reads_for: tuple[object, ...] = ()
        self._site = SiteView()
        self._priorities = SeenPriorities()
        self._limits = SeenLimits()
        self._handed_over: dict[JobId, str] = {}
        self._held_pins = HeldPins(state, emit, self.hand_over)
        self._poll_count, self._polled = 0, asyncio.Event()
        self.clock_was_set = asyncio.Event()
        state.ask_slurm = self.poll_now

    def leased(self) -> tuple[JobId, ...]:
        """Return the jobs that a lease keeps waiting for Roost, blocked jobs included."""
        return self._leased.job_ids

    def job_ids(self) -> Iterator[JobId]:
        """Yield the running jobs, then the waiting ones that Roost may place."""
        yield from self._view.running
        yield from self._view.waiting

    @property
    def is_queue_long(self) -> bool:
        """Whether the queue is too long to be gone through in the event loop, or just was.

        The poll that shows the end of 15,000 tasks takes as long as the polls before.
        """
        longest = snapshot_reading.LONG_QUEUE
        return len(self._view.lives) > longest or self._snapshot.is_longer_than(longest)

    def is_running(self, job_id: JobId) -> bool:
        """Return whether a job held an allocation at the last poll."""
        return job_id in self._view.running

    def waiting_jobs(self) -> Iterator[PendingJob]:
        """Yield the jobs that Roost may place, as Slurm has them, without missing details."""
        for job in self._snapshot.jobs:
            detail = self._snapshot.details.get(job.number)
            if not job.is_pending or detail is None:
                continue
            for job_id in map(JobId, job.job_ids):
                spec = self._view.waiting.get(job_id)
                if spec is not None and job_id not in self._handed_over:
                    yield PendingJob(spec, job, detail)

    def hand_over(self, job_id: JobId, reason: str) -> None:
        """Leave a waiting job to plain Slurm, from the next poll on, which comes now."""
        self._handed_over[job_id] = reason
        self._schedule.add((0.0,))

    async def prepare_settings(self) -> None:
        """Read a long queue by settings that have changed, beside the loop, for `cluster_events`.

        Nothing is to be awaited between the two.
        """
        reader, settings = self._reader, settings_of_reads(self._state.config)
        if reader is not None and settings != self._reads_for:
            async with self._reading:
                await self._rereading.prepare(settings, self._by_settings(reader))

    def cluster_events(self) -> Iterator[Event]:
        """Return the events that bring a fresh engine to the cluster's state of the last poll.

        The event of a job is made when the caller takes it. A later poll does not change them.
        """
        at_s = self._state.clock.now_s()
        self._leased.note_enforced(self._nodes.nodes)
        settings, before = settings_of_reads(self._state.config), self._reads_for
        if self._reader is not None and settings != before:
            self._reads_for = settings
            asked = self._by_settings(self._reader)
            self._site = asked.site
            self._show(self._rereading.take(settings, asked))
        return chain(
            diff_nodes((), self._nodes.nodes, at_s),
            self._limits.introduce(at_s),
            introduce(self._view, at_s),
        )

    def poll(self, job_id: JobId | None = None) -> None:
        """Schedule a few polls soon, until a job has started if one is given."""
        self._awaited.await_start(job_id)

    def follow_wall_clock(self) -> None:
        """Read the queue again, now, if the wall clock was set: begin times are wall clock times.

        All jobs are read again then; otherwise only those that have changed.
        """
        step_s = self._state.clock.follow_wall()
        if step_s:
            _log.warning("wall_clock_set", step_s=round(step_s, 3))
            self._view = replace(self._view, reads={})
            self._schedule.add((0.0,))
            self.clock_was_set.set()

    def poll_nodes(self) -> None:
        """Read the nodes at the next poll, now: the state of one has changed."""
        self._schedule.read_nodes()

    async def poll_now(self, patience_s: float = SLOW_ANSWER_S / 2) -> bool:
        """Poll as soon as can be.

        Args:
            patience_s: the longest time to wait.

        Returns:
            Whether that poll ended in time, with or without an answer.
        """
        wanted = self._poll_count + 1 + (self._state.slurm_asked_s is not None)
        self._schedule.add_urgent()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self._poll_count < wanted:
                    self._polled.clear()
                    await self._polled.wait()
                return True
        return False

    async def first_poll(self) -> None:
        """Poll once, whether or not Slurm answers."""
        await self._poll_once(with_nodes=True)

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self._schedule.until_due()
            await self._poll_once(with_nodes=self._schedule.are_nodes_due())

    async def _poll_once(self, with_nodes: bool) -> None:
        began_s = time.monotonic()
        self._state.slurm_asked_s = self._state.clock.now_s()
        try:
            await self._poll_slurm(with_nodes)
        except (SlurmError, UnknownVersion) as error:
            if not self._state.slurm_fault:
                _log.error("slurm_lost", error=str(error))
            self._metrics.slurm_failures.labels("look").inc()
            self._state.slurm_fault = str(error)
            self._schedule.retry()
            return
        finally:
            self._state.slurm_asked_s = None
            self._poll_count += 1
            self._polled.set()
        self._state.slurm_answered_s = self._state.clock.now_s()
        if self._state.slurm_fault:
            _log.info("slurm_answers", version=self._state.slurm_version)
            self._state.slurm_fault = ""
        self._metrics.slurm_poll_s.observe(time.monotonic() - began_s)
        if with_nodes:
            self._schedule.note_nodes_read(self._state.config.slurm.poll_interval_s)
        # Also where the first job comes while a node changes its state.
        if (self._view.waiting and self._nodes.are_changing) or self._nodes.are_registering:
            self._schedule.follow_transition()

    async def _poll_slurm(self, with_nodes: bool) -> None:
        if self._reader is None or self._state.slurm_fault:
            await self._identify_slurm()
        with_nodes = with_nodes or not self._nodes.nodes
        if with_nodes:
            await self._poll_nodes()
        self.follow_wall_clock()
        asked_s, asked_at_s = time.monotonic(), self._state.clock.now_s()
        snapshot = await self._slurm.queue()
        dump_s = time.monotonic() - asked_s
        rules = self._nodes.added_to(await self._slurm.rules())
        # After the last question: where it fails, the next poll is the first.
        is_first, self._snapshot = not self._snapshot.at_epoch_s, snapshot
        self._state.hidden_nodes = self._nodes.hidden(rules, self._state.is_enforced)
        self._state.cpu_sharing = rules.cpu_sharing
        if with_nodes:
            self._state.stranded_gpus = self._nodes.stranded(snapshot)
        self._note_priorities(rules, is_first)
        self._site = SiteView(
            rules=rules,
            hand_over_s=self._state.config.slurm.hand_over_s,
            handed_over=self._handed_over,
            opened=self.short_runs.opened,
            release_reasons=self._state.release_reasons,
            priorities=self._priorities,
            avoided=self._state.avoided_at(self._state.clock.now_s()),
            outside=self._outside(),
        )
        assert self._reader is not None
        at_s = self._state.clock.now_s()
        if is_first:
            self._leased.find_pins(self._snapshot)
        await asyncio.sleep(0)
        async with self._reading:
            reading = await self._read_beside(self._reader, at_s, dump_s)
        self._awaited.see(self._snapshot.jobs, reading.view, asked_s)
        # Before the starts: for a moment the amounts of jobs that have started count twice.
        for event in self._limits.apply(rules, snapshot, at_s):
            self._emit(event)
        self._state.share_count = self._limits.share_count
        for event in reading.events:
            self._emit(since_submission(event) if is_first else event)
        self._held_pins.see(snapshot.jobs, asked_at_s)

    def _note_priorities(self, rules: SiteRules, is_first: bool) -> None:
        """Find the jobs that people have put first or last since the last poll."""
        jobs = self._snapshot.jobs
        if is_first:
            waits = self._state.earlier_waits.items()
            precedences = {job_id: wait.precedence for job_id, wait in waits if wait.precedence}
            overtakes = {job_id: wait.overtakes for job_id, wait in waits if wait.overtakes}
            self._priorities = resumed(jobs, precedences, overtakes)
        self._priorities = observe(self._priorities, jobs, rules.scheduling, rules.priority_tier_of)

    async def _read_beside(self, reader: JobReader, at_s: float, dump_s: float) -> SnapshotReading:
        """Read the last snapshot and show what it means; a long queue is read in a thread.

        Args:
            reader: of jobs.
            at_s: engine time.
            dump_s: how long squeue and slurmctld took for the dump.
        """

        def read() -> tuple[SnapshotReading, float]:
            began_s = time.thread_time()
            found = self._snapshot_reader(reader, at_s).read(self._operator_view, self._leased)
            return found, time.thread_time() - began_s

        while True:
            before = self._view
            found, cost_s = await asyncio.to_thread(read) if self.is_queue_long else read()
            if self._view is not before:  # a fresh engine got the view meanwhile
                continue
            if not self.short_runs.review(self._snapshot, found.view):
                break
            self._site = replace(self._site, opened=self.short_runs.opened)
        began_s = time.thread_time()
        self._show(found)
        cost_s += time.thread_time() - began_s
        if self.is_queue_long:  # its dump holds slurmctld's locks; else a command starts, no more
            cost_s += min(dump_s, _MOST_DUMP_S)
        self._schedule.pause_after(cost_s)
        return found

    def _snapshot_reader(self, reader: JobReader, at_s: float) -> SnapshotReader:
        nodes = set(self._nodes.specs)
        return SnapshotReader(self._snapshot, reader, nodes, self._view, at_s, self._site)

    def _by_settings(self, reader: JobReader) -> SnapshotReader:
        """Return the last snapshot, to be read by the settings in effect."""
        asked = self._snapshot_reader(reader, self._state.clock.now_s())
        return replace(asked, site=replace(self._site, outside=self._outside()))

    def _outside(self) -> Mapping[str, frozenset[NodeName]]:
        state, specs = self._state, self._nodes.specs.values()
        untyped = state.untyped_nodes, state.untyped_partitions()
        return nodes_outside(state.config.listed_nodes(), specs, *untyped)

    def _show(self, reading: SnapshotReading) -> None:
        """Update the daemon's state from a poll."""
        before, self._view = self._view, reading.view
        if self._nodes.are_blocked and not before.running.keys() <= self._view.running.keys():
            self._schedule.follow_transition()  # the job that has ended may have blocked them
        if any(gpus.polls for gpus in reading.view.reserved.values()):
            self._schedule.add((0.0,))  # it shows what was free for a new reservation
        self._state.unsure_nodes = reading.view.unsure_nodes
        self._note_hand_overs(before)
        self._operator_view.show(reading.shown)
        held_back = self._view.held_back.jobs.keys() & self._view.blocked.keys()
        self._state.held_back_count = len(held_back)
        self._state.settle_until_s = self._view.settle_until_s
        self._state.job_ids.clear()
        self._state.job_ids.update(self._view.numbers)
        self._leased.note(*reading.leases)

    def _note_hand_overs(self, before: SlurmQueueView) -> None:
        """Count the jobs that a limit has held back for long, and forget those that have left."""
        for job_id, reason in self._view.unmanaged.items():
            if reason.startswith(LEFT_BY_LIMIT) and job_id not in before.unmanaged:
                self._metrics.hand_overs.labels("limit").inc()
        now = self._view
        # A job that waits by this view was handed over while a thread read the queue for it.
        for job_id in self._handed_over.keys() - now.unmanaged.keys() - now.waiting.keys():
            del self._handed_over[job_id]

    async def _identify_slurm(self) -> None:
        """Ask Slurm for its release and settings; after an outage they may have changed."""
        version, settings = await self._slurm.version(), await self._slurm.settings()
        known, self._state.slurm_version = self._state.slurm_version, str(version)
        if known != str(version) and (beyond := untried(version)):
            cure = "keep to shadow mode, or enforce one small partition first"
            _log.warning("slurm_release_untried", release=beyond, cure=cure)
        self._state.cluster = settings.cluster_name
        self._state.can_pin_again = traits_of(version).can_untype
        self._reads_for = settings_of_reads(self._state.config)
        self._reader = job_reader(self._state, traits_of(version), settings.accounts_memory)

    async def _poll_nodes(self) -> None:
        asked_epoch_s = int(time.time())
        events = self._nodes.apply(await self._slurm.nodes(), self._state.clock.now_s())
        self._state.registered_epoch_s = 0 if self._nodes.are_registering else asked_epoch_s
        self._leased.note_enforced(self._nodes.nodes)
        self._nodes.warn_of_absent(self._state.config.partitions)
        self._state.untyped_nodes = self._nodes.untyped(self._state.is_enforced)
        self._state.node_states.clear()
        self._state.node_states.update(self._nodes.states)
        for event in events:
            if isinstance(event, NodeLost):
                self._state.board.forget(event.name)
            self._emit(event)
