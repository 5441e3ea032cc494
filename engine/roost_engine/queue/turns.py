"""The turns of groups: which job of which group comes next, by priority tier and sort key."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappush
from typing import TypeAlias

from roost_engine.domain.model import JobId
from roost_engine.policies.protocols import SortKey
from roost_engine.queue.group import Group

Turn: TypeAlias = tuple[int, SortKey, int, JobId, Group]
"""(priority tier, negated; sort key; number of the group; job; group): the least comes first."""


def push_turn(turns: list[Turn], group: Group, entry: tuple[SortKey, JobId] | None) -> None:
    """Add the turn of a group's job to a heap of turns, if there is one."""
    if entry is not None:
        key, job_id = entry
        heappush(turns, (-group.sample.priority_tier, key, group.number, job_id, group))


def first_preemptors(groups: Iterable[Group], count: int) -> Sequence[JobId]:
    """Return the first job of each group without capacity for which Slurm may preempt.

    Args:
        groups: of the queue.
        count: the most that are returned; the first in order.
    """
    turns: list[Turn] = []
    for group in groups:
        if group.demand.preempts and group.last_failure is not None and not group.limit:
            push_turn(turns, group, group.head())
    return [job_id for _, _, _, job_id, _ in sorted(turns)[:count]]


def first_hopeful(groups: Iterable[Group], count: int) -> Iterator[tuple[Group, JobId]]:
    """Yield the first jobs of the groups that have hints, in order.

    Args:
        groups: of the queue.
        count: how many jobs to look at. A job is left out if its group has lost its hints, or if it
            has left the queue meanwhile.
    """
    waiting: list[Turn] = []
    for group in groups:
        if group.hints and not group.limit:
            # No more than `count` jobs of one group can be among the first.
            tier, number = -group.sample.priority_tier, group.number
            waiting += [(tier, key, number, job_id, group) for key, job_id in group.job_ids[:count]]
    waiting.sort()  # of sorted runs: much quicker than of jobs in any order
    for _, _, _, job_id, group in waiting[:count]:
        if group.hints and not group.limit and job_id in group.since_s:
            yield group, job_id
