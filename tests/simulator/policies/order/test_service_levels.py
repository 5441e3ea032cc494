"""Tiresias' queues: limits, GPU-seconds and rounds."""

from math import inf

from tests.simulator.hand_worked import ends, run, running, starts

from roost_sim.policies.order.service_levels import TIRESIAS_LIMITS_GPU_S, ServiceLevels


def test_tiresias_falls_at_its_first_limit() -> None:
    # 8 GPUs: 3250 GPU-s are had after 406.25 s. 2 comes at 10, in the first queue too but later:
    # it waits until 1 falls, and runs its 100 s. 3 comes at 420 and waits for its turn behind 2.
    jobs = run("tiresias-consolidated", ("1", 0, 1000, 8), ("2", 10, 100, 8), ("3", 420, 50, 8))
    assert starts(jobs) == {"1": 0.0, "2": 406.25, "3": 506.25}
    assert ends(jobs) == {"1": 1150.0, "2": 506.25, "3": 556.25}


def test_tiresias_goes_by_gpu_seconds() -> None:
    levels = ServiceLevels(TIRESIAS_LIMITS_GPU_S)
    record = running("1", gpus=4, started_s=0.0)
    queues = [levels.value(record, at_s)[0] for at_s in (812.0, 812.5, 1800.0, 4500.0, 1e9)]
    assert queues == [0, 1, 2, 3, 3]  # 3250 / 4, 7200 / 4, 18000 / 4
    assert levels.next_change([record], 1000.0) == 1800.0
    assert levels.next_change([record], 5000.0) == inf


def test_lucids_tiresias_has_one_limit_and_rounds() -> None:
    # 18000 GPU-s are had after 2250 s; the next round of 60 s begins at 2280.
    jobs = run("tiresias-lucid", ("1", 0, 3000, 8), ("2", 10, 100, 8))
    assert starts(jobs)["2"] == 2280.0
