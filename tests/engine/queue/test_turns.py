"""turns: jobs of several groups in order, a higher priority tier before a better key."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from tests.engine.queue.test_group import cluster_of_two, no_capacity

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.placement.eligibility import Hint
from roost_engine.queue.group import Group, demand_of
from roost_engine.queue.turns import Turn, first_hopeful, first_preemptors, push_turn
from roost_engine.testing.builders import job, shape

HINT = Hint(shape(1), 0b01, 1)


def group_of(number: int, spec: JobSpec, keys: Iterable[float]) -> Group:
    """A group whose jobs are named by its number and their keys: 1-3.0."""
    group = Group(number, demand_of(spec), spec)
    for key in keys:
        job_id = JobId(f"{number}-{key}")
        group.job_ids.append(((key,), job_id))
        group.since_s[job_id] = 0.0
    return group


def test_a_turn_is_by_tier_then_key_then_number_of_the_group() -> None:
    turns: list[Turn] = []
    low, high = job("1"), replace(job("2"), priority_tier=1)
    for group in (group_of(2, low, [1.0]), group_of(1, low, [1.0]), group_of(3, high, [9.0])):
        push_turn(turns, group, group.head())
    push_turn(turns, group_of(4, low, []), None)
    assert [one[3] for one in sorted(turns)] == ["3-9.0", "1-1.0", "2-1.0"]


def test_preemptors_are_the_first_jobs_of_groups_without_capacity() -> None:
    spec = replace(job("1"), preempts=("low",))
    failure = no_capacity(cluster_of_two(), spec)
    groups = [group_of(number, spec, [float(9 - number), 20.0]) for number in (1, 2, 3, 4)]
    for group in groups[:3]:
        group.note_failure(failure)
    groups[1].limit = "cpu"
    plain = group_of(5, job("1"), [0.0])
    plain.note_failure(failure)
    assert first_preemptors([*groups, plain], 9) == ["3-6.0", "1-8.0"]
    assert first_preemptors([*groups, plain], 1) == ["3-6.0"]


def test_hopeful_jobs_come_in_order_unless_their_group_loses_hope_or_they_leave() -> None:
    groups = [group_of(1, job("1"), [1.0, 3.0]), group_of(2, job("1"), [2.0, 4.0, 5.0])]
    for group in groups:
        group.hints = {HINT.shape: HINT}

    def found(change: Callable[[], object] = lambda: None) -> list[str]:
        seen = []
        for _, job_id in first_hopeful(groups, 4):
            seen.append(str(job_id))
            change()
        return seen

    assert found() == ["1-1.0", "2-2.0", "1-3.0", "2-4.0"]
    assert found(lambda: groups[1].since_s.pop(JobId("2-4.0"), None)) == ["1-1.0", "2-2.0", "1-3.0"]
    assert found(groups[1].hints.clear) == ["1-1.0", "1-3.0"]
