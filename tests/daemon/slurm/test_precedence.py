"""Who moved a job: Slurm's recalculation never puts a job first or last, people do."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.domain.model import JobId
from roost_slurm.text.scheduling import Scheduling
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roostd.slurm.precedence import MOST_OVERTAKEN, SeenPriorities, observe, resumed

BASIC = Scheduling(priority_type="priority/basic")
MULTIFACTOR = Scheduling(
    priority_type="priority/multifactor", age_weight=1_000, fair_share_weight=5_000
)


def queued(number: int, priority: int = 100, user_id: int = 1, **fields: object) -> QueuedJob:
    """Return the record of a waiting job of one GPU."""
    job = QueuedJob(
        number=number, priority=priority, user_id=user_id, tres=(("TresPerNode", "gpu:1"),)
    )
    return replace(job, **fields)  # type: ignore[arg-type]


def seen(*dumps: list[QueuedJob], scheduling: Scheduling = BASIC) -> Mapping[int, int]:
    """Return the precedences after some dumps."""
    known = SeenPriorities()
    for jobs in dumps:
        known = observe(known, jobs, scheduling)
    return known.precedences


LINE = [queued(1, 90), queued(2, 80, user_id=2), queued(3, 70), queued(4, 60, user_id=3)]


def test_a_job_that_is_raised_above_all_others_is_put_first() -> None:
    raised = [*LINE[:3], queued(4, 91, user_id=3)]
    assert seen(LINE, raised) == {4: 1}
    assert seen(LINE, raised, raised) == {4: 1}


def test_a_job_that_is_put_first_later_comes_before_the_earlier_one() -> None:
    one = [*LINE[:3], queued(4, 91, user_id=3)]
    two = [*LINE[:2], queued(3, 95), queued(4, 91, user_id=3)]
    assert seen(LINE, one, two) == {4: 1, 3: 2}


def test_jobs_raised_together_keep_their_order() -> None:
    raised = [*LINE[:2], queued(3, 99), queued(4, 98, user_id=3)]
    assert seen(LINE, raised) == {3: 2, 4: 1}


def test_the_first_job_that_is_raised_further_is_put_first() -> None:
    assert seen(LINE, [queued(1, 500), *LINE[1:]]) == {1: 1}


def test_a_job_that_is_raised_past_some_only_is_not_put_first() -> None:
    assert seen(LINE, [*LINE[:3], queued(4, 85, user_id=3)]) == {}


def test_a_job_that_is_lowered_below_all_others_is_put_last() -> None:
    assert seen(LINE, [queued(1, 5), *LINE[1:]]) == {1: -1}


def test_the_last_job_that_is_lowered_further_stays_in_the_sites_order() -> None:
    assert seen(LINE, [*LINE[:3], queued(4, 59, user_id=3)]) == {}
    assert seen([queued(1, 5)], [queued(1, 4)]) == {}


def test_a_change_back_ends_it() -> None:
    raised = [*LINE[:3], queued(4, 91, user_id=3)]
    assert seen(LINE, raised, LINE) == {}
    lowered = [queued(1, 5), *LINE[1:]]
    assert seen(LINE, lowered, [queued(1, 75), *LINE[1:]]) == {}


def test_a_hold_ends_it() -> None:
    raised, held = [*LINE[:3], queued(4, 91)], [*LINE[:3], queued(4, 0)]
    assert seen(LINE, raised, held, [*LINE[:3], queued(4, 91)]) == {}


def test_scontrol_top_lowers_the_other_jobs_of_the_user_and_puts_none_of_them_last() -> None:
    before = [queued(1, 90), queued(2, 80), queued(3, 70)]
    after = [queued(1, 89, nice=1), queued(2, 79, nice=1), queued(3, 90, nice=-20)]
    assert seen(before, after) == {3: 1}
    assert seen(before[::2], [queued(1, 70, nice=20), queued(3, 90, nice=-20)]) == {3: 1}


def test_scontrol_top_of_a_user_does_not_pass_other_users() -> None:
    before = [queued(1, 90, user_id=2), queued(2, 80), queued(3, 70)]
    after = [queued(1, 90, user_id=2), queued(2, 70, nice=10), queued(3, 80, nice=-10)]
    assert seen(before, after) == {}
    known = observe(observe(SeenPriorities(), before, BASIC), after, BASIC)
    assert known.overtakes == {3: ("2",)}
    back = [after[0], queued(2, 80), queued(3, 70)]
    assert observe(known, back, BASIC).overtakes == {2: ("3",)}


def test_a_job_lowered_below_others_of_its_user_lets_them_pass() -> None:
    before = [queued(1, 90), queued(2, 80), queued(3, 70), queued(4, 60, user_id=2)]
    after = [queued(1, 65, nice=25), *before[1:]]
    known = observe(observe(SeenPriorities(), before, BASIC), after, BASIC)
    assert (known.overtakes, known.precedences) == ({2: ("1",), 3: ("1",)}, {})
    assert observe(known, after[1:], BASIC).overtakes == {2: ("1",), 3: ("1",)}
    assert observe(known, after[:1], BASIC).overtakes == {}


def test_of_thousands_of_jobs_moved_at_once_a_bounded_number_is_remembered() -> None:
    before = [queued(number, 10**6 - number) for number in range(1, 5_001)]
    after = [replace(job, priority=job.priority - 7, nice=7) for job in before[:-1]]
    after.append(replace(before[-1], priority=10**6, nice=-5_000))
    known = observe(SeenPriorities(), before, BASIC)
    known = observe(known, after, BASIC)
    assert known.precedences == {5_000: 1}
    assert len(known.overtakes[5_000]) == MOST_OVERTAKEN


def test_another_tier_and_jobs_without_gpus_do_not_count() -> None:
    cpu = replace(queued(9, 10_000), tres=())
    fast = queued(8, 9_000, partition="fast")
    raised = [*LINE[:3], queued(4, 91, user_id=3)]
    known = SeenPriorities()
    for jobs in (LINE, raised):
        known = observe(known, [*jobs, cpu, fast], BASIC, lambda job: job.partition == "fast")
    assert known.precedences == {4: 1}


def test_a_newcomer_is_not_moved_by_hand() -> None:
    assert seen(LINE, [*LINE, queued(5, 1_000)]) == {}


def test_a_job_that_asks_for_something_else_now_is_not_moved_by_hand() -> None:
    assert seen(LINE, [*LINE[:3], queued(4, 1_000, user_id=3, qos="high")]) == {}


def test_a_job_that_runs_or_has_left_is_forgotten() -> None:
    raised = [*LINE[:3], queued(4, 91, user_id=3)]
    running = replace(raised[3], state=SlurmJobState.RUNNING)
    assert seen(LINE, raised, [*LINE[:3], running]) == {}


def test_a_task_that_leaves_its_array_keeps_the_arrays_precedence() -> None:
    array = queued(5, 50, user_id=4, array_number=5, task_ids=(1, 2))
    raised = replace(array, priority=95)
    task = replace(raised, number=6, task_ids=(1,))
    rest = replace(raised, task_ids=(2,))
    assert seen([*LINE, array], [*LINE, raised]) == {5: 1}
    assert seen([*LINE, array], [*LINE, raised], [*LINE, task, rest]) == {5: 1, 6: 1}


def test_what_an_earlier_daemon_knew_holds_at_the_first_dump() -> None:
    precedences = {JobId("4"): 2, JobId("77"): 1}
    overtakes = {JobId("2"): (JobId("1"),), JobId("77"): (JobId("1"),)}
    known = observe(resumed(LINE, precedences, overtakes), LINE, BASIC)
    assert known.precedences == {4: 2}
    assert known.overtakes == {2: ("1",)}


# -- multifactor ---------------------------------------------------------------------------------


def test_a_priority_beyond_age_and_fair_share_is_by_hand() -> None:
    raised = [*LINE[:3], queued(4, 6_100, user_id=3)]
    assert seen(LINE, raised, scheduling=MULTIFACTOR) == {4: 1}


def test_a_job_of_one_user_that_outruns_the_users_others_by_more_than_age_can_is_by_hand() -> None:
    line = [queued(1, 90), queued(2, 80), queued(3, 70)]
    raised = [queued(1, 95), queued(2, 85), queued(3, 2_200)]
    assert seen(line, raised, scheduling=MULTIFACTOR) == {3: 1}
    by_age = [queued(1, 95), queued(2, 85), queued(3, 2_070)]
    assert seen(line, by_age, scheduling=MULTIFACTOR) == {}


def test_nice_is_by_hand_however_small() -> None:
    raised = [*LINE[:3], queued(4, 91, user_id=3, nice=-31)]
    assert seen(LINE, raised, scheduling=MULTIFACTOR) == {4: 1}


@pytest.mark.parametrize("scheduling", [Scheduling(), replace(MULTIFACTOR, age_weight=None)])
def test_with_unknown_weights_only_nice_tells(scheduling: Scheduling) -> None:
    assert seen(LINE, [*LINE[:3], queued(4, 10**9)], scheduling=scheduling) == {}
    raised = [*LINE[:3], queued(4, 91, user_id=3, nice=-31)]
    assert seen(LINE, raised, scheduling=scheduling) == {4: 1}


def test_when_most_jobs_move_far_at_once_slurms_settings_have_changed() -> None:
    far = [replace(job, priority=job.priority * 1_000) for job in LINE]
    assert seen(LINE, [LINE[0], *far[1:]], scheduling=MULTIFACTOR) == {}


@given(
    users=st.lists(st.integers(0, 4), min_size=1, max_size=12),
    steps=st.lists(
        st.tuples(
            st.lists(st.floats(0, 1), min_size=5, max_size=5),  # fair-share by user
            st.lists(st.floats(0, 1), min_size=12, max_size=12),  # age by job
        ),
        min_size=2,
        max_size=6,
    ),
    sizes=st.lists(st.integers(1, 3_000), min_size=12, max_size=12),
)
def test_age_and_fair_share_alone_never_put_a_job_first_or_last(
    users: list[int], steps: list[tuple[list[float], list[float]]], sizes: list[int]
) -> None:
    known = SeenPriorities()
    for shares, ages in steps:
        jobs = [
            queued(
                number,
                sizes[number] + int(5_000 * shares[user]) + int(1_000 * ages[number]),
                user_id=user,
            )
            for number, user in enumerate(users)
        ]
        known = observe(known, jobs, MULTIFACTOR)
        assert (known.precedences, known.overtakes) == ({}, {})
