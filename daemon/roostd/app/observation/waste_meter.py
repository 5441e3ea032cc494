"""Counts the GPU-hours that bring nothing, by day and user; docs/waste.md says what counts.

Every running job and every node is looked at once a minute, a part of them in each poll. What is
seen then counts for the time since it was last looked at, three minutes at most: a daemon that was
stopped or suspended meanwhile has not seen that time. The sums are stored in the state folder,
every five minutes and when the daemon stops.

GPUs with much foreign memory are reported to the engine, which gives them out last. That is done
sooner than such memory is a finding, because the next job there may run out of memory.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from prometheus_client import Counter

from roost_engine.domain.events import Event, ForeignMemorySeen
from roost_engine.domain.model import JobId, NodeName, NodeShare
from roostd.app.observation.neighbour_losses import lost_frac
from roostd.ops.state_file import StateFile
from roostd.state import DaemonState
from roostd.telemetry.board import NodeReport
from roostd.telemetry.foreign_memory import Foreign, ForeignMemory, foreign_memory
from roostd.telemetry.probe_messages import column
from roostd.telemetry.waste import (
    MOST_BYTES,
    WasteTally,
    half_free_count,
    linked_partners,
    read_tally,
    split_count,
)

IDLE_SM_FRAC = 0.05  # below: the GPU is idle
# So long at every poll. A process outlives its job by seconds, by minutes where it cannot be killed
# (UnkillableStepTimeout) or an epilog tests the GPU.
LASTS_AFTER_S = 300.0
AVOIDED_AFTER_S = 45.0  # most processes that outlive their job are gone; polls are a minute apart
LEAST_MEMORY_BYTES = 1 << 30  # with less, no job starts on a node
_LONGEST_S = 180.0
_STORE_EVERY_S = 300.0
_POLLS_PER_ROUND = 60


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a round, by name: a reload in the middle gives all nodes new indices."""

    name: NodeName


_Item: TypeAlias = JobId | _Node


@dataclass(slots=True)
class _Seen:
    """The last look at a job or node, and since when each of its GPUs has been wasted."""

    at_s: float
    since_s: dict[tuple[NodeName, int], float] = field(default_factory=dict)
    counted_to_s: dict[tuple[NodeName, int], float] = field(default_factory=dict)

    def lasting_s(self, gpu: tuple[NodeName, int], is_so: bool) -> float:
        """Return the seconds to count of a GPU: from the first poll on, once LASTS_AFTER_S passed.

        Args:
            gpu: its node and index.
            is_so: whether this poll found it so.
        """
        if not is_so:
            self.since_s.pop(gpu, None)
            self.counted_to_s.pop(gpu, None)
            return 0.0
        since_s = self.since_s.setdefault(gpu, self.at_s)
        if self.at_s - since_s < LASTS_AFTER_S:
            return 0.0
        counted_s = self.at_s - self.counted_to_s.get(gpu, since_s)
        self.counted_to_s[gpu] = self.at_s
        return min(counted_s, LASTS_AFTER_S + _LONGEST_S)


class WasteMeter:
    """See the module.

    Args:
        state: has the engine, the clock, the probes' newest reports, and the tally to add to.
        path: where the sums are stored.
        counter: the metric, by kind.
        emit: puts an event on the engine's queue.
    """

    def __init__(
        self, state: DaemonState, path: Path, counter: Counter, emit: Callable[[Event], None]
    ) -> None:
        self._state, self._counter, self._emit = state, counter, emit
        self._file = StateFile(path, "waste", MOST_BYTES)
        self._seen: dict[_Item, _Seen] = {}
        self._round: deque[_Item] = deque()
        self._holders: dict[tuple[NodeName, int], list[JobId]] = {}  # when the round began
        self._slice_count = 0
        self._stored_s = state.clock.now_s()
        state.waste = self._file.read(read_tally) or WasteTally()
        if self._file.fault:
            state.waste.fault = f"{self._file.fault}; counting began again"
        if state.waste.began_epoch_s is None:
            state.waste.began_epoch_s = state.clock.to_epoch_s(self._stored_s)

    def poll(self) -> None:
        """Look at the next part of jobs and nodes. To be called about once a second."""
        if not self._round:
            self._begin_round()
        for _ in range(min(self._slice_count, len(self._round))):
            self._look(self._round.popleft())
        if self._state.clock.now_s() - self._stored_s >= _STORE_EVERY_S:
            self.store()

    def store(self) -> None:
        """Store the sums; the tally says why if that fails."""
        self._stored_s = self._state.clock.now_s()
        self._file.write(self._state.waste.text())
        self._state.waste.fault = self._file.fault

    def _begin_round(self) -> None:
        cluster = self._state.engine.cluster
        items: dict[_Item, None] = dict.fromkeys(cluster.held_jobs())
        items |= dict.fromkeys(map(_Node, cluster.names))
        self._seen = {item: seen for item, seen in self._seen.items() if item in items}
        self._holders = {}
        for job_id in cluster.held_jobs():
            for share in cluster.shares(job_id):
                for gpu in share.gpu_indices:
                    self._holders.setdefault((share.node, gpu), []).append(job_id)
        gpu_counts = {spec.name: spec.gpu_count for spec in cluster.specs if spec is not None}
        for node, gpu in list(self._state.foreign):
            if gpu >= gpu_counts.get(node, 0):
                del self._state.foreign[node, gpu]
        self._round.extend(items)
        self._slice_count = -(-len(items) // _POLLS_PER_ROUND)

    def _look(self, item: _Item) -> None:
        now_s = self._state.clock.now_s()
        seen = self._seen.setdefault(item, _Seen(now_s))
        past_s, seen.at_s = min(now_s - seen.at_s, _LONGEST_S), now_s
        if isinstance(item, _Node):
            self._look_at_node(item.name, seen, past_s)
        else:
            self._look_at_job(item, seen, past_s)

    def _look_at_job(self, job_id: JobId, seen: _Seen, past_s: float) -> None:
        shares = self._state.engine.cluster.shares(job_id)
        user_id = self._state.user_of(job_id)
        if not shares or user_id is None:
            return
        lost = lost_frac(self._state, job_id) or 0.0
        for share in shares:
            self._add(user_id, "held", len(share.gpu_indices) * past_s)
            self._add(user_id, "split", self._split_count(share) * past_s)
            self._add(user_id, "neighbours", len(share.gpu_indices) * past_s * lost)
            busy = self._busy(share)
            for gpu in share.gpu_indices:
                self._look_at_gpu(user_id, seen, (share.node, gpu), busy.get(gpu), past_s)

    def _look_at_gpu(
        self,
        user_id: int,
        seen: _Seen,
        gpu: tuple[NodeName, int],
        sm_frac: float | None,
        past_s: float,
    ) -> None:
        """Count a GPU as idle once it has been so for long."""
        if sm_frac is None:
            self._add(user_id, "unknown", past_s)
        is_idle = sm_frac is not None and sm_frac < IDLE_SM_FRAC
        self._add(user_id, "idle", seen.lasting_s(gpu, is_idle))

    def _look_at_node(self, name: NodeName, seen: _Seen, past_s: float) -> None:
        cluster = self._state.engine.cluster
        node = cluster.index_of.get(name)
        spec = None if node is None else cluster.specs[node]
        if node is None or spec is None:
            return  # a fresh engine gets its nodes one by one
        mask, usable = int(cluster.free_mask[node]), bool(cluster.usable[node])
        free = [gpu for gpu in range(spec.gpu_count) if mask >> gpu & 1]
        # On a node that Slurm does not use now, an administrator may test the GPUs.
        report = self._live_report(name) if usable else None
        self._look_at_memory(name, report, seen, spec.gpu_count, mask)
        if not usable or not free:
            return
        reachable = min(
            max(int(cluster.cpu_free[node]), 0),
            max(int(cluster.memory_free[node]), 0) // LEAST_MEMORY_BYTES,
        )
        self._add(None, "unreachable", max(len(free) - reachable, 0) * past_s)
        self._add(None, "half_free", half_free_count(free, self._partners_of(node)) * past_s)

    def _look_at_memory(
        self, name: NodeName, report: NodeReport | None, seen: _Seen, gpu_count: int, free_mask: int
    ) -> None:
        """Count the GPUs whose memory processes of no job hold, once they have done so for long."""
        foreign = self._state.foreign
        holders = [
            [] if free_mask >> gpu & 1 else self._jobs_on((name, gpu)) for gpu in range(gpu_count)
        ]
        found: list[ForeignMemory | None] = [None] * gpu_count
        if report is not None:
            found = foreign_memory(report, holders, self._state.job_ids)
        for index, memory in enumerate(found):
            gpu = (name, index)
            if memory is not None or not holders[index] or report is None:
                lasting_s = seen.at_s - seen.since_s.get(gpu, seen.at_s)
                self._report_to_engine(gpu, memory, report, lasting_s >= AVOIDED_AFTER_S)
            counted_s = seen.lasting_s(gpu, memory is not None)
            self._add(None, "foreign", counted_s)
            if memory is None:
                foreign.pop(gpu, None)
            elif counted_s > 0 or gpu in foreign:
                held_by = next(iter(holders[index] or ()), None)
                foreign[gpu] = Foreign(memory, held_by, seen.since_s[gpu])
        if report is not None:
            report.has_foreign_memory = any((name, gpu) in foreign for gpu in range(gpu_count))

    def _report_to_engine(
        self,
        gpu: tuple[NodeName, int],
        memory: ForeignMemory | None,
        report: NodeReport | None,
        has_lasted: bool,
    ) -> None:
        """Report to the engine whether to give a GPU out last, where that has changed.

        Args:
            gpu: its node and index.
            memory: its foreign memory; None: it has none, or that is not known.
            report: of the node.
            has_lasted: whether it has had foreign memory for AVOIDED_AFTER_S.
        """
        (name, index), cluster, used_bytes = gpu, self._state.engine.cluster, 0
        is_known = (cluster.index_of[name], index) in cluster.foreign.used_bytes
        if memory is not None and report is not None and (has_lasted or is_known):
            limit_frac = self._state.config.placement.foreign_memory_frac
            gpu_bytes = report.hello.gpus[index].memory_bytes
            if limit_frac < 1.0 and memory.used_bytes > limit_frac * gpu_bytes:
                used_bytes = memory.used_bytes
        if is_known != (used_bytes > 0):
            at_s = self._state.clock.now_s()
            self._emit(
                ForeignMemorySeen(at_s=at_s, name=name, gpu_index=index, used_bytes=used_bytes)
            )

    def _jobs_on(self, gpu: tuple[NodeName, int]) -> list[JobId] | None:
        """Return the jobs that hold a GPU; None: it is not known whose processes belong there.

        A GPU with shards, or of a reservation, counts as held by what is no job of Slurm.
        """
        holding = self._holders.get(gpu)
        if holding is None or any(self._state.user_of(job_id) is None for job_id in holding):
            return None
        return holding

    def _split_count(self, share: NodeShare) -> int:
        node = self._state.engine.cluster.index_of.get(share.node)
        if node is None or len(share.gpu_indices) == 1:
            return 0
        partners = self._partners_of(node)
        known = [gpu for gpu in share.gpu_indices if gpu < len(partners)]
        return split_count(known, partners)

    def _partners_of(self, node: int) -> tuple[int | None, ...]:
        return linked_partners(self._state.engine.cluster.table(node).links)

    def _busy(self, share: NodeShare) -> dict[int, float]:
        """Return the SM activity of a job's GPUs on one node, of those whose probe reports it."""
        report = self._live_report(share.node)
        if report is None or report.sample is None:
            return {}
        fracs = column(report.sample.sm_frac, report.hello.order)
        found = {gpu: fracs[gpu] for gpu in share.gpu_indices if gpu < len(fracs)}
        return {gpu: frac for gpu, frac in found.items() if frac is not None}

    def _live_report(self, name: NodeName) -> NodeReport | None:
        return self._state.board.live_report(name, self._state.config.telemetry.stale_after_s)

    def _add(self, user_id: int | None, kind: str, gpu_s: float) -> None:
        if gpu_s > 0:
            epoch_s = self._state.clock.to_epoch_s(self._state.clock.now_s())
            self._state.waste.add(epoch_s, user_id, kind, gpu_s)
            self._counter.labels(kind).inc(gpu_s)
