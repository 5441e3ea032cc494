"""A play in which waiting jobs displace running ones: those of a higher value, the highest first.

As in preemption.rules.DisplaceBy, and as coarse as a play is: on counts of GPUs, without the time
that a restart takes, and without migration. A job that is stopped waits again, with the value that
it has by then and what is left of its run time. Jobs that could displace others are reviewed at
every multiple of the lease, because values grow while jobs run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from roost_engine.cluster.node_sets import NO_NODES, NodeSet
from roost_engine.forecast.play import Entrant, Play, WaitingGroup
from roost_engine.forecast.snapshot import Held, Part, Snapshot
from roost_engine.preemption.rules import next_round_s


@dataclass(frozen=True, slots=True)
class _Run:
    """A running job that may be stopped.

    Attributes:
        job: as it began to wait.
        since_s: engine time at which its value was that of its key.
        growth: of its value, each second.
        safe_until_s: engine time before which it is not stopped.
        end_s: engine time at which it ends.
    """

    job: Entrant
    since_s: float
    growth: float
    safe_until_s: float
    end_s: float
    held: Held


class PreemptingPlay(Play):
    """See Play; the snapshot says how jobs displace others."""

    def __init__(
        self,
        snapshot: Snapshot,
        rest_s: Sequence[float],
        waiting: Sequence[Entrant],
        to_come: Iterable[Entrant] = (),
    ) -> None:
        super().__init__(snapshot, rest_s, waiting, to_come)
        assert snapshot.displacing is not None
        self._rule, self._wishes = snapshot.displacing, snapshot.wishes
        self._runs: dict[int, _Run] = {}
        for number, (running, left_s) in enumerate(zip(snapshot.running, rest_s, strict=True), 1):
            if running.stoppable is not None:
                from_s, key, wish, limit_s = running.stoppable
                job = Entrant(key, -number, 0.0, 0.0, wish, left_s, limit_s, is_stoppable=True)
                self._note_run(job, from_s, running.held)

    def _note_run(self, job: Entrant, safe_until_s: float, held: Held) -> None:
        count = sum(gpus for _, gpus in held) if self._rule.grows else 0
        end_s = self.at_s + job.run_s
        self._runs[job.number] = _Run(job, self.at_s, count, safe_until_s, end_s, held)

    def _start(self, entrant: Entrant, held: Held) -> None:
        super()._start(entrant, held)
        if entrant.is_stoppable:
            self._note_run(entrant, self.at_s + self._rule.lease_s, held)

    def _settle(self) -> None:
        super()._settle()
        while self._displace():
            super()._settle()

    def _next_s(self) -> float:
        next_s = super()._next_s()
        is_awaited = any(group.jobs and self._may_displace(group) for group in self._groups)
        if is_awaited and self._runs:
            return min(next_s, next_round_s(self._rule.lease_s, self.at_s))
        return next_s

    def _may_displace(self, group: WaitingGroup) -> bool:
        return self._wishes[group.number].may_displace and not group.is_limited

    def _displace(self) -> bool:
        """Let the first job that can displace others do so; returns whether there is one."""
        at_s = self.at_s
        self._runs = {number: run for number, run in self._runs.items() if run.end_s > at_s}
        ranked = sorted(
            (
                (self._value(run), number)
                for number, run in self._runs.items()
                if run.safe_until_s <= at_s
            ),
            reverse=True,
        )
        if not ranked:
            return False
        groups = [group for group in self._groups if group.jobs and self._may_displace(group)]
        for group in sorted(groups, key=WaitingGroup.turn):
            wanted = self._key_value(group.jobs[0][2])
            victims = [number for value, number in ranked if value > wanted]
            for part in group.parts if victims else ():
                nodes = self._nodes_without(part, victims)
                if nodes:
                    self._replace(group, part, nodes, victims)
                    return True
        return False

    def _nodes_without(self, part: Part, victims: Sequence[int]) -> NodeSet:
        """Return the nodes that would hold a job if the first victims stopped; none: too few."""
        chosen = able = self._nodes.able(part)
        missing = part.node_count - able.bit_count()
        gained: dict[int, int] = {}
        for victim in victims:
            if missing <= 0:
                break
            for node, count in self._runs[victim].held:
                if not (part.nodes & ~chosen) >> node & 1:
                    continue
                gained[node] = gained.get(node, 0) + count
                if self._nodes.free[node] + gained[node] >= part.gpu_count:
                    chosen |= 1 << node
                    missing -= 1
        return NO_NODES if missing > 0 else chosen

    def _replace(
        self, group: WaitingGroup, part: Part, nodes: NodeSet, victims: Sequence[int]
    ) -> None:
        """Stop the victims on nodes that have too few GPUs, and start the first job there."""
        able = self._nodes.able(part)
        for victim in victims:
            if (nodes & able).bit_count() >= part.node_count:
                break
            here = (
                nodes >> node & 1 and not able >> node & 1 for node, _ in self._runs[victim].held
            )
            if any(here):
                self._stop(victim)
                able = self._nodes.able(part)
        _, _, entrant = heappop(group.jobs)
        self._start(entrant, self._nodes.fullest(part, nodes & able))
        self._drop_gone(group)

    def _stop(self, number: int) -> None:
        """Put a running job back into the queue."""
        run = self._runs.pop(number)
        self._ends = [end for end in self._ends if end[1] != number]
        heapify(self._ends)
        self._limits.remove(number)
        self._quotas.give_back(number)
        freed = self._nodes.change(run.held, 1)
        part, key = self._rule.value_part, run.job.key
        key = (*key[:part], self._value(run), *key[part + 1 :])
        left_s = run.end_s - self.at_s
        job = run.job._replace(key=key, run_s=left_s, at_s=self.at_s, since_s=self.at_s)
        group = self._groups[job.wish]
        heappush(group.jobs, (job.key, job.number, job))
        self._open_groups(freed)

    def _value(self, run: _Run) -> float:
        return self._key_value(run.job) + run.growth * (self.at_s - run.since_s)

    def _key_value(self, job: Entrant) -> float:
        value = job.key[self._rule.value_part]
        assert not isinstance(value, str)
        return value
