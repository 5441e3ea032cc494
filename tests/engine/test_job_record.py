"""job_record: run time, attained service and efficiency of a job, and what a placement holds."""

import pytest

from roost_engine.domain.model import JobId, NodeName, Placement, Shape
from roost_engine.domain.tier import Tier
from roost_engine.job_record import (
    JobRecord,
    JobState,
    ObservedJob,
    capacity_wanted,
    shares_of,
)
from roost_engine.testing.builders import GIB, job, shape, share, waiting

A, B = NodeName("a"), NodeName("b")


def running(*shapes: Shape, started_s: float = 100.0) -> JobRecord:
    record = waiting(job("1", *shapes))
    record.state, record.started_s, record.speed_since_s = JobState.RUNNING, started_s, started_s
    return record


def at_speed(speed_frac: float | None, started_s: float = 100.0) -> JobRecord:
    record = running(started_s=started_s)
    record.note_speed(speed_frac, started_s)
    return record


class TestRuns:
    def test_run_time_counts_earlier_runs_and_the_present_one(self) -> None:
        record = running(shape(4, 2))
        assert record.run_s(100.0) == 0.0
        record.earlier_run_s = 50.0
        assert record.run_s(160.0) == 110.0
        assert record.attained_gpu_s(160.0) == 110.0 * 8

    def test_a_waiting_job_has_run_only_as_long_as_before(self) -> None:
        record = waiting(job("1", gpus=2))
        assert (record.run_s(500.0), record.attained_gpu_s(500.0)) == (0.0, 0.0)
        record.earlier_run_s = 50.0
        assert (record.run_s(500.0), record.attained_gpu_s(500.0)) == (50.0, 100.0)

    def test_run_time_is_kept_by_tier(self) -> None:
        record = running(shape(8, 2), started_s=100.0)
        record.shares = share("a", 0), share("b", 0)
        record.placement = Placement((A, B), (0,), shape(8, 2), Tier.CLUSTER)
        assert record.run_s_by_tier(160.0) == (0.0, 0.0, 60.0)

        again = running(shape(8, 2), started_s=200.0)
        again.remember_runs(record, 160.0)
        assert again.run_s_by_tier(210.0) == (10.0, 0.0, 60.0)
        again.remember_runs(ObservedJob(job_id=JobId("1"), started_s=0.0), 300.0)
        assert again.earlier_run_s_by_tier == (0.0, 0.0, 60.0)

    def test_only_a_job_that_roost_decides_about_is_under_roost(self) -> None:
        record = running(shape(4, 2))
        assert record.under_roost is record
        assert ObservedJob(job_id=JobId("1"), started_s=40.0).under_roost is None

    def test_an_observed_job_has_run_since_it_was_started(self) -> None:
        assert ObservedJob(job_id=JobId("1"), started_s=40.0).run_s(100.0) == 60.0

    @pytest.mark.parametrize(
        ("state", "is_on_gpus"),
        [
            (JobState.WAITING, False),
            (JobState.CLEARING, False),
            (JobState.PLACING, False),
            (JobState.RUNNING, True),
            (JobState.STOPPING, True),
            (JobState.RELEASED, False),
            (JobState.ENDED, False),
        ],
    )
    def test_a_job_that_is_being_stopped_is_still_on_gpus(
        self, state: JobState, is_on_gpus: bool
    ) -> None:
        record = waiting(job("1"))
        record.state = state
        assert record.is_on_gpus == is_on_gpus


class TestEfficiency:
    def test_a_job_that_never_ran_has_none(self) -> None:
        assert waiting(job("1")).efficiency(100.0) == 0.0
        assert running().efficiency(100.0) == 0.0

    def test_speeds_weigh_by_how_long_they_lasted(self) -> None:
        record = at_speed(1.0)
        record.note_speed(0.5, 120.0)  # after 20 s at full speed
        assert record.efficiency(120.0) == 1.0
        assert record.efficiency(200.0) == pytest.approx((20 + 80 * 0.5) / 100)

    def test_time_at_an_unknown_speed_counts_as_no_work(self) -> None:
        record = at_speed(1.0)
        record.note_speed(None, 150.0)
        assert record.efficiency(200.0) == 0.5


class TestRequeue:
    def test_a_stopped_job_takes_its_runs_and_its_work_along(self) -> None:
        first = at_speed(0.5)
        again = waiting(job("1"), 300.0)
        again.remember_runs(first, 300.0)
        assert (again.earlier_run_s, again.work_s, again.stop_count) == (200.0, 100.0, 1)
        assert again.efficiency(1_000.0) == 0.5

        again.started_s = 400.0
        again.note_speed(1.0, 400.0)
        third = waiting(job("1"), 500.0)
        third.remember_runs(again, 500.0)
        assert (third.earlier_run_s, third.work_s, third.stop_count) == (300.0, 200.0, 2)

    def test_a_job_that_only_waited_has_not_been_stopped(self) -> None:
        again = waiting(job("1"), 300.0)
        again.remember_runs(waiting(job("1")), 300.0)
        assert (again.earlier_run_s, again.stop_count) == (0.0, 0)

    def test_a_job_that_slurm_started_on_its_own_counts_its_run(self) -> None:
        again = waiting(job("1"), 300.0)
        again.remember_runs(ObservedJob(job_id=JobId("1"), started_s=250.0), 300.0)
        assert (again.earlier_run_s, again.work_s, again.stop_count) == (50.0, 0.0, 1)


def test_link_use_is_stored_only_while_the_job_runs() -> None:
    record = waiting(job("1"))
    record.note_links(0.1, 0.2, 0.3)
    assert (record.nvlink_frac, record.pcie_frac, record.nic_frac) == (None, None, None)
    record = running()
    record.note_links(0.1, None, 0.3)
    assert (record.nvlink_frac, record.pcie_frac, record.nic_frac) == (0.1, None, 0.3)


class TestTiers:
    def test_the_tier_is_that_of_the_placement(self) -> None:
        record = running(shape(2, 2), shape(4))
        record.placement = Placement((A, B), (0, 1), shape(2, 2), Tier.CLUSTER)
        record.shares = (share("a", 0, 1),)
        assert record.tiers == (Tier.CLUSTER, Tier.NODE)

    def test_without_a_placement_the_tier_is_guessed_from_the_number_of_nodes(self) -> None:
        record = running(shape(2, 2))
        record.shares = (share("a", 0, 1), share("b", 0, 1))
        assert record.tiers == (Tier.RACK, Tier.RACK)
        record.shares = (share("a", 0, 1, 2, 3),)
        assert record.tiers == (Tier.NODE, Tier.RACK)


class TestShares:
    def test_each_node_of_a_gang_gives_what_the_shape_asks_of_a_node(self) -> None:
        wanted = shape(2, 2, cpus_per_node=6, memory_bytes=GIB)
        assert shares_of(Placement((A, B), (1, 3), wanted, Tier.RACK)) == (
            share("a", 1, 3, cpu_count=6, memory_bytes=GIB),
            share("b", 1, 3, cpu_count=6, memory_bytes=GIB),
        )

    def test_nodes_of_a_scattered_placement_give_in_proportion_rounded_up(self) -> None:
        wanted = shape(3, cpus_per_node=4, memory_bytes=10)
        scattered = Placement((A, B), (), wanted, Tier.RACK, indices_by_node=((7,), (0, 2)))
        assert shares_of(scattered) == (
            share("a", 7, cpu_count=2, memory_bytes=4),  # of 4/3 CPUs and 10/3 bytes
            share("b", 0, 2, cpu_count=3, memory_bytes=7),  # of 8/3 CPUs and 20/3 bytes
        )


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (shape(1), "waits for 1 GPU on one node"),
        (shape(8), "waits for 8 GPUs on one node"),
        (shape(1, 2), "waits for the same 1 GPU on each of 2 nodes"),
        (shape(4, 3), "waits for the same 4 GPUs on each of 3 nodes"),
    ],
)
def test_a_job_without_capacity_says_what_it_waits_for(wanted: Shape, words: str) -> None:
    assert capacity_wanted(wanted) == words
