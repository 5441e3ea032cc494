"""Preemption rules: which jobs are stopped, when, and what it costs."""

import pytest
from tests.simulator.hand_worked import Job, ends, run, starts


def test_srtf_stops_the_longer_job_and_pays_for_its_restart() -> None:
    # At 10, 1 has 90 s left and 2 has 20 s: 2 runs 10-30. 1 loads its checkpoint 30-35, and runs
    # its 90 s until 125. 3 (100 s) does not displace 1, which has 125 - 40 = 85 s left at 40.
    jobs = run("srtf", ("1", 0, 100, 8), ("2", 10, 20, 8), ("3", 40, 100, 8), restart_s=5.0)
    assert ends(jobs) == {"1": 125.0, "2": 30.0, "3": 225.0}
    assert [job.preempted_count for job in jobs] == [1, 0, 0]


def test_srtf_preempts_no_job_if_that_does_not_pay() -> None:
    # At 10, 1 has 90 s left, and a restart takes 50. 2 of 41 s would cost it 91 s: it waits. One
    # of 39 s costs 89 s: it runs 10-49, then 1 stands until 99 and runs its 90 s.
    waits = run("srtf", ("1", 0, 100, 8), ("2", 10, 41, 8), restart_s=50.0)
    assert ends(waits) == {"1": 100.0, "2": 141.0}
    pays = run("srtf", ("1", 0, 100, 8), ("2", 10, 39, 8), restart_s=50.0)
    assert ends(pays) == {"1": 189.0, "2": 49.0}


def test_srtf_stops_not_many_for_one() -> None:
    # At 10, 1 to 8 of one GPU have 90 s left each. 9 takes 12 s of all GPUs: eight would wait 96 s
    # in all, 9 waits 90 s for them. With 11 s they wait 88: they stop, and end at 10 + 11 + 90.
    small: tuple[Job, ...] = tuple((str(n), 0, 100, 1) for n in range(1, 9))
    assert ends(run("srtf", *small, ("9", 10, 12, 8)))["9"] == 112.0
    assert ends(run("srtf", *small, ("9", 10, 11, 8)))["8"] == 111.0
    assert ends(run("srtf+consolidation+open+srtf", *small, ("9", 10, 12, 8)))["9"] == 22.0


def test_srtf_counts_the_restart_of_every_victim() -> None:
    # At 10, 1 and 2 have 90 s left, a restart takes 20. 3 of 30 s would cost 2 x 50 s: it waits. Of
    # 24 s it costs 2 x 44: it runs 10-34, the others stand until 54 and end at 144.
    large = (("1", 0, 100, 4), ("2", 0, 100, 4))
    assert ends(run("srtf", *large, ("3", 10, 30, 8), restart_s=20.0))["3"] == 130.0
    pays = run("srtf", *large, ("3", 10, 24, 8), restart_s=20.0)
    assert ends(pays) == {"1": 144.0, "2": 144.0, "3": 34.0}


@pytest.mark.parametrize(
    ("name", "ended_s"),
    [
        *((name, 931.0) for name in ("srtf", "srsf", "las", "tiresias", "gittins-2d")),
        ("las+consolidation+open+las", 901.0),
    ],
)
def test_a_preemptible_job_migrates_to_one_node_when_it_fits(name: str, ended_s: float) -> None:
    # 1 and 2 leave two GPUs of each node: 3 has them from 1 on. 1 ends at 500, and 3 moves there
    # with 499 s of its 900 done: 30 s of restart and 401 s of work, until 931.
    jobs = run(
        *(name, ("1", 0, 500, 6), ("2", 0, 2000, 6), ("3", 1, 900, 4)), nodes=2, restart_s=30.0
    )
    assert ends(jobs) == {"1": 500.0, "2": 2000.0, "3": ended_s}


def test_las_lets_the_newcomer_run_after_a_round() -> None:
    # Rounds of 360 s. 1 runs from 0. 2 comes at 100 and may displace 1 from 360 on; it runs its
    # 300 s until 660. Then 1 runs on.
    jobs = run("las", ("1", 0, 1000, 8), ("2", 100, 300, 8))
    assert ends(jobs) == {"1": 1300.0, "2": 660.0}


def test_las_takes_turns() -> None:
    # Both want 8 GPUs for 1000 s. 1 runs 0-360; 2 360-1080, for at 720 both have had as much and
    # neither has had less; then 1 again until 2 has had less, and so on, two rounds each.
    jobs = run("las", ("1", 0, 1000, 8), ("2", 0, 1000, 8))
    assert ends(jobs) == {"1": 1720.0, "2": 2000.0}


_CROWDED: tuple[Job, ...] = (("1", 0, 200, 6), ("2", 0, 1000, 6))


def test_gandiva_takes_turns_in_the_order_of_waiting() -> None:
    # Slices of 120 s, three jobs of the whole node: 1 0-120, 2 -240, 3 -360, 1 -480, ...
    jobs = run("gandiva", ("1", 0, 200, 8), ("2", 1, 200, 8), ("3", 2, 200, 8))
    # 1 runs 0-120 and 360-440; 2 120-240 and 440-520; 3 240-360 and 520-600.
    assert ends(jobs) == {"1": 440.0, "2": 520.0, "3": 600.0}


def test_gandiva_preempts_no_more_jobs_at_the_end_of_a_slice_than_the_waiting_ones_need() -> None:
    jobs = run("gandiva", ("1", 0, 300, 4), ("2", 0, 300, 4), ("3", 2, 300, 4))
    # 1 runs 0-120, 2 0-240, 3 120-360: each time one goes, who has run longest; it does not
    # displace the other one in turn. 1 runs 240-420 and 2 360-420, then both are done: 3 420-480.
    assert ends(jobs) == {"1": 420.0, "2": 420.0, "3": 480.0}
    assert [job.preempted_count for job in jobs] == [1, 1, 1]


def test_gandiva_preempts_no_job_between_the_ends_of_slices() -> None:
    # 2 comes when 1 has run for a slice, and another job's end at 130 has the engine look again.
    jobs = run("gandiva", ("1", 0, 500, 7), ("3", 0, 130, 1), ("2", 125, 10, 7))
    assert starts(jobs)["2"] == 240.0


def test_gandivas_slices_are_ten_restarts_at_least() -> None:
    # A restart of 30 s: 1 may go after 300 s, at the end of the slice at 360. 2 runs its 300 s
    # until 660, 1 stands until 690 and runs its last 140.
    jobs = run("gandiva", ("1", 0, 500, 8), ("2", 1, 300, 8), restart_s=30.0)
    assert ends(jobs) == {"1": 830.0, "2": 660.0}


def test_gandiva_leaves_jobs_alone_while_all_jobs_fit() -> None:
    jobs = run("gandiva", ("1", 0, 500, 4), ("2", 1, 500, 4))
    assert [job.preempted_count for job in jobs] == [0, 0]


def test_gandiva_moves_a_job_to_one_node_as_soon_as_it_fits_there() -> None:
    # 1 and 2 leave two GPUs of each node: 3 has them from 1 on. 1 ends at 200, and 3 moves to its
    # node: 199 s of its 500 are done, the restart takes 12, so it ends at 200 + 12 + 301 = 513.
    jobs = run("gandiva", *_CROWDED, ("3", 1, 500, 4), nodes=2, restart_s=12.0)
    assert ends(jobs) == {"1": 200.0, "2": 1000.0, "3": 513.0}
    assert [job.preempted_count for job in jobs] == [0, 0, 1]
    assert jobs[2].tier == 0


def test_gandiva_migrates_no_job_within_its_first_slice() -> None:
    jobs = run("gandiva", *_CROWDED, ("3", 100, 500, 4), nodes=2, restart_s=30.0)
    assert ends(jobs)["3"] == 600.0
