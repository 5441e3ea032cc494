"""What a dump of the queue does not tell: details are asked for once, users' begins are found."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from roost_engine.domain.errors import SlurmRefused
from roost_engine.domain.model import JobId
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roost_slurm.text.stamp import parse_stamp
from roostd.slurm.queue import (
    DetailCache,
    EndedLeases,
    MovedBegins,
    begins_of,
    by_begin,
    comments_of,
    with_whole_records,
)

LEASE_S = 60.0
NOW_S = 1_000_000.0


def queued(number: int, **changes: Any) -> QueuedJob:
    return QueuedJob(number=number, **{"admin_comment": "roost:lease", **changes})


def detail(number: int, **changes: Any) -> JobDetail:
    plain = {"state": SlurmJobState.PENDING, "reason": "", "is_held": False, "min_node_count": 1}
    lists = {"max_node_count": None, "excluded_nodes": "", "required_nodes": ""}
    return JobDetail(**{"number": number, **plain, **lists, **changes})


class Controller:
    """Answers questions for details, and keeps what was asked: a job's number, or "all"."""

    def __init__(self, details: Mapping[int, JobDetail | None]) -> None:
        self.details = dict(details)
        self.forged: set[int] = set()  # missing among all jobs' records
        self.ended_count = 0
        self.asked: list[str] = []
        self.cache = DetailCache(self._show_all, self._show_one)

    async def _show_all(self, wanted: Collection[int]) -> tuple[int, dict[int, JobDetail]]:
        self.asked.append("all")
        found = {
            number: one
            for number, one in self.details.items()
            if one is not None and number not in self.forged
        }
        return len(found) + self.ended_count, found

    async def _show_one(self, number: str) -> JobDetail | None:
        self.asked.append(number)
        return self.details.get(int(number))

    async def questions(self, *jobs: QueuedJob) -> list[str]:
        self.asked.clear()
        await self.cache.look_up(jobs)
        return sorted(self.asked)


async def test_details_are_asked_for_when_a_job_is_new_or_asks_for_something_else() -> None:
    controller = Controller({1: detail(1), 2: detail(2)})

    assert await controller.questions(queued(1)) == ["1"]
    assert await controller.questions(queued(1, priority=9, reason="Resources"), queued(2)) == ["2"]
    assert await controller.questions(queued(1, node_count=2), queued(2)) == ["1"]
    assert {number: known for number, (_, known) in controller.cache.known.items()} == {
        1: detail(1),
        2: detail(2),
    }


async def test_the_limit_of_an_array_is_read_again_when_someone_has_changed_jobs() -> None:
    controller = Controller({1: detail(1, task_limit=1), 2: detail(2)})
    jobs = queued(1, state=SlurmJobState.PENDING), queued(2, state=SlurmJobState.PENDING)
    await controller.questions(*jobs)
    assert await controller.questions(*jobs) == []
    controller.cache.forget_limits()
    assert await controller.questions(*jobs) == ["1"]
    assert await controller.questions(*jobs) == []


async def test_details_of_jobs_that_left_the_queue_are_forgotten() -> None:
    controller = Controller({1: detail(1)})
    await controller.questions(queued(1))

    assert await controller.questions() == []

    assert controller.cache.known == {}


async def test_jobs_are_read_together_where_that_is_cheaper_than_one_by_one() -> None:
    jobs = [queued(number) for number in range(1, 2_000)]
    controller = Controller({job.number: detail(job.number) for job in jobs})
    assert await controller.questions(jobs[0]) == ["1"]
    assert await controller.questions(*jobs[:3]) == ["all"]

    # In a long queue a list is dear: up to a dozen are read one by one.
    assert await controller.questions(*jobs[:1_000]) == ["all"]
    assert len(await controller.questions(*jobs[:1_012])) == 12
    assert await controller.questions(*jobs[:1_025]) == ["all"]


async def test_jobs_that_have_ended_make_a_list_dear_too() -> None:
    jobs = [queued(number) for number in range(1, 20)]
    controller = Controller({job.number: detail(job.number) for job in jobs})
    controller.ended_count = 5_000
    assert await controller.questions(*jobs[:2]) == ["all"]  # how long it is was not known
    assert len(await controller.questions(*jobs[:14])) == 12
    assert await controller.questions(*jobs[:1]) == []


async def test_a_job_that_scontrol_refuses_to_show_fails_one_poll_and_is_left_out_then() -> None:
    class Refusing(Controller):
        async def _show_one(self, number: str) -> JobDetail | None:
            if number == "2":
                self.asked.append(number)
                raise SlurmRefused(("scontrol",), 1, "Access/permission denied")
            return await super()._show_one(number)

    controller = Refusing({1: detail(1), 2: None, 3: detail(3)})
    jobs = [queued(1), queued(2), queued(3)]
    with pytest.raises(SlurmRefused, match="denied"):
        await controller.questions(*jobs)
    await controller.questions(*jobs)
    assert sorted(controller.cache.known) == [1, 3]


async def test_forged_records_never_use_up_the_questions_of_other_jobs() -> None:
    """Records whose detail cannot be read are asked for behind those never asked for."""
    forgers = [queued(number) for number in range(1, 14)]
    controller = Controller({})
    await controller.questions(*forgers)

    victim = queued(99)
    controller.details[99], controller.forged = detail(99), {99}
    asked = await controller.questions(*forgers, victim)

    assert "99" in asked
    assert list(controller.cache.known) == [99]


def begin_of(job: QueuedJob) -> int | None:
    stamp = parse_stamp(job.admin_comment)
    assert stamp is not None
    return stamp.begin_epoch_s


def test_slurms_estimate_of_a_start_is_no_begin() -> None:
    begins = MovedBegins(lambda: LEASE_S)

    def look(**changes: Any) -> int | None:
        (stamped,) = begins.stamp([queued(1, **changes)], NOW_S)
        return begin_of(stamped)

    hour_s = NOW_S + 3_600.0
    assert look(reason="", start_epoch_s=hour_s, eligible_epoch_s=NOW_S) is None
    assert look(reason="BeginTime", start_epoch_s=hour_s, eligible_epoch_s=None) is None
    assert look(reason="Resources", start_epoch_s=hour_s, eligible_epoch_s=hour_s) is None
    assert look(reason="BeginTime", start_epoch_s=hour_s, eligible_epoch_s=hour_s) == hour_s


def test_a_begin_that_no_lease_explains_is_the_users_own_and_stays_so() -> None:
    begins = MovedBegins(lambda: LEASE_S)

    def look(after_s: float, begin_after_s: float, **changes: Any) -> int | None:
        start_s = NOW_S + begin_after_s
        times = {"start_epoch_s": start_s, "eligible_epoch_s": start_s}
        job = queued(1, **{"reason": "BeginTime", **times, **changes})
        (stamped,) = begins.stamp([job], NOW_S + after_s)
        return begin_of(stamped)

    assert look(0.0, LEASE_S) is None  # the lease
    assert look(0.0, LEASE_S + 2.0) is None  # the lease, seen late
    assert look(0.0, 600.0) == NOW_S + 600
    assert look(590.0, 600.0) == NOW_S + 600  # a lease could end then, but this was seen before
    assert look(591.0, 599.0) is None  # moved earlier: a lease
    assert look(0.0, 600.0, restart_count=1) is None  # Slurm's own, of a requeued job


def test_the_start_that_slurm_expects_of_a_job_in_line_is_no_begin() -> None:
    job = queued(1, reason="Resources", start_epoch_s=NOW_S + 600)
    assert MovedBegins(lambda: LEASE_S).stamp([job], NOW_S) == (job,)


def test_begins_are_told_of_every_task_of_an_array() -> None:
    array = queued(5, array_number=5, task_ids=(0, 2), admin_comment="roost:lease begin=1800000000")
    others = [queued(7), queued(8, admin_comment="begin=1800000000")]
    assert begins_of([array, *others]) == {"5_0": 1_800_000_000, "5_2": 1_800_000_000}


def test_a_begin_that_is_past_counts_as_none() -> None:
    begins = {JobId("1"): 100, JobId("2"): 101, JobId("3"): 101}
    job_ids = [JobId(name) for name in ("1", "2", "3", "4")]
    assert by_begin(job_ids, begins, 100.0) == {None: ["1", "4"], 101: ["2", "3"]}


def test_a_comment_is_written_once_for_all_jobs_that_say_the_same() -> None:
    running = queued(3, state=SlurmJobState.RUNNING)
    told = queued(4, admin_comment="roost:lease roost:advice waits")
    unleased = queued(6, admin_comment="")
    array = queued(5, array_number=5, task_ids=(0, 1))
    sentences = {JobId(name): "waits" for name in ("1", "2", "3", "4", "5_1", "6")}

    assert comments_of([queued(1), queued(2), running, told, array, unleased], sentences) == {
        "roost:lease roost:advice waits": ["1", "2", "5_0", "5_1"]
    }


# -- leases that users end ---------------------------------------------------------------------


def pending(number: int, eligible_epoch_s: float | None) -> QueuedJob:
    return queued(number, eligible_epoch_s=eligible_epoch_s)


def test_a_lease_that_a_user_has_ended_is_not_renewed() -> None:
    leases, job_ids = EndedLeases(), [JobId("1"), JobId("2")]
    jobs = [pending(1, 160.0), pending(2, 160.0)]
    assert leases.without(job_ids, jobs, 100.0) == job_ids
    leases.renewed(job_ids, 160.0)
    jobs = [pending(1, 119.0), pending(2, 160.0)]
    assert leases.without(job_ids, jobs, 120.0) == [JobId("2")]
    leases.renewed([JobId("2")], 180.0)
    assert leases.without(job_ids, jobs, 140.0) == [JobId("2")]
    assert leases.without(job_ids, [pending(1, 300.0), pending(2, 180.0)], 150.0) == job_ids


def test_an_owner_may_end_the_first_lease_too() -> None:
    leases, job_ids = EndedLeases(), [JobId("1"), JobId("2"), JobId("3")]
    submitted = [pending(number, 105.0) for number in (1, 2, 3)]
    leases.seen(submitted, {JobId("3"): 105}, 100.0)
    jobs = [pending(1, 101.0), pending(2, 105.0), pending(3, 101.0)]
    assert leases.without(job_ids, jobs, 101.5) == [JobId("2"), JobId("3")]
    assert leases.without(job_ids, jobs, 106.0) == [JobId("2"), JobId("3")]


def test_a_first_lease_that_has_run_out_is_renewed() -> None:
    leases = EndedLeases()
    leases.seen([pending(1, 105.0)], {}, 100.0)
    assert leases.without([JobId("1")], [pending(1, 105.0)], 106.0) == [JobId("1")]


def test_a_lease_that_has_run_out_is_renewed() -> None:
    leases, job_ids = EndedLeases(), [JobId("1")]
    leases.renewed(job_ids, 160.0)
    assert leases.without(job_ids, [pending(1, 160.0)], 170.0) == job_ids
    assert leases.without(job_ids, [pending(1, None)], 120.0) == job_ids


def test_a_lease_that_had_run_out_in_a_dump_and_is_renewed_since_was_ended_by_no_user() -> None:
    """A crowd's dump serves several updates: the first lease of a job, then all leases."""
    leases, job_ids, jobs = EndedLeases(), [JobId("1")], [pending(1, 105.0)]
    assert leases.without(job_ids, jobs, 106.0, asked_s=10.0) == job_ids
    leases.renewed(job_ids, 166.0, at_s=11.0)
    assert leases.without(job_ids, jobs, 107.0, asked_s=10.0) == job_ids
    assert leases.without(job_ids, jobs, 108.0, asked_s=12.0) == []


def test_leases_of_before_a_wall_clock_was_set_back_are_no_begins() -> None:
    uptime_s = 0.0
    begins = MovedBegins(lambda: LEASE_S, monotonic=lambda: uptime_s)
    leased = queued(
        1, reason="BeginTime", start_epoch_s=NOW_S + 50.0, eligible_epoch_s=NOW_S + 50.0
    )
    far_s = NOW_S + 9_000.0
    moved = queued(2, reason="BeginTime", start_epoch_s=far_s, eligible_epoch_s=far_s)

    assert begins.stamp([leased], NOW_S) == (leased,)
    assert begins.stamp([leased], NOW_S - 3600.0) == (leased,)
    assert begins_of(begins.stamp([moved], NOW_S - 3600.0)) == {"2": far_s}
    uptime_s = 2 * LEASE_S  # every lease was renewed since
    assert begins_of(begins.stamp([leased], NOW_S - 3500.0)) == {"1": NOW_S + 50.0}


def test_the_long_lease_of_a_crowd_is_no_begin_and_stays_one_for_its_length() -> None:
    uptime_s = 0.0
    begins = MovedBegins(lambda: LEASE_S, monotonic=lambda: uptime_s)
    ends_s = NOW_S + 1_000.0  # of 10,000 jobs, the others' leases have 1,140 s
    leased = queued(1, reason="BeginTime", start_epoch_s=ends_s, eligible_epoch_s=ends_s)
    crowd = [queued(number, reason="Resources") for number in range(2, 10_001)]

    assert not begins_of(begins.stamp([leased, *crowd], NOW_S))
    uptime_s = 500.0  # the crowd has gone
    assert not begins_of(begins.stamp([leased], NOW_S + 500.0))
    moved_s = NOW_S + 9_000.0
    moved = queued(2, reason="BeginTime", start_epoch_s=moved_s, eligible_epoch_s=moved_s)
    assert begins_of(begins.stamp([leased, moved], NOW_S + 500.0)) == {"2": moved_s}


def test_an_array_is_updated_as_a_whole_record() -> None:
    """The tasks that an update leaves out would each become a record in slurmctld."""
    jobs = (
        queued(7, array_number=7, task_ids=(3, 4, 5)),
        queued(8, array_number=7, task_ids=(1,)),
        queued(9, array_number=9, task_ids=(1, 2)),
        queued(10, array_number=10, task_ids=(1, 2), state=SlurmJobState.RUNNING),
        queued(11),
    )
    named = [JobId("11"), JobId("7_4"), JobId("10_1")]
    assert set(with_whole_records(named, jobs)) == {"11", "7_3", "7_4", "7_5", "10_1"}
    assert with_whole_records([], jobs) == []
