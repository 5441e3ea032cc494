"""Values of jobs: service, run time, latest start, achieved speed."""

from tests.simulator.hand_worked import Job, ends, run, running
from tests.simulator.simulated import arrival

from roost_engine.testing.builders import waiting
from roost_sim.policies.order.job_values import latest_start


def test_srsf_counts_gpus_too() -> None:
    # At 10: 1 has 90 s x 2 = 180 GPU-s left. 2 has 30 s x 8 = 240: it waits though it is shorter.
    assert ends(run("srsf", ("1", 0, 100, 2), ("2", 10, 30, 8))) == {"1": 100.0, "2": 130.0}
    assert ends(run("srtf", ("1", 0, 100, 2), ("2", 10, 30, 8))) == {"1": 130.0, "2": 40.0}


def test_bloxs_tiresias_does_not_count_gpus() -> None:
    # At 600, when 3 comes, 1 has had 600 s on 2 GPUs = 1200 GPU-s, 2 has had 500 s on 6 = 3000.
    # Blox stops 1, which has had GPUs for longest; least attained service would stop 2.
    jobs: tuple[Job, ...] = (("1", 0, 900, 2), ("2", 100, 900, 6), ("3", 600, 100, 1))
    assert [job.preempted_count for job in run("tiresias-blox", *jobs)] == [1, 0, 0]
    assert [job.preempted_count for job in run("las", *jobs)] == [0, 1, 0]


def test_dallys_gandiva_serves_the_latest_start_first() -> None:
    stopped, newer = running("1", 8, 0.0), running("2", 8, 500.0)
    for record, at_s in ((stopped, 100.0), (newer, 600.0)):
        record.earlier_run_s, record.started_s, record.queued_s = 100.0, None, at_s
    never = waiting(arrival("3", 50, 10, 8).spec, queued_s=50.0)
    ranked = sorted((never, stopped, newer), key=lambda job: latest_start(job, 700.0))
    assert [job.job_id for job in ranked] == ["2", "1", "3"]


def test_s_rank_serves_the_job_of_least_achieved_speed_at_the_end_of_a_lease() -> None:
    # Leases of 3600 s. At full speed 1 has S = 1, 2 has never run and S = 0: 2 gets the node.
    jobs = run("s-rank", ("1", 0, 5000, 8), ("2", 100, 1000, 8))
    assert ends(jobs) == {"1": 6000.0, "2": 4600.0}
