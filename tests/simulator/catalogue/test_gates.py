"""Gates by name: EASY backfill and the open gate by hand."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.simulator.hand_worked import NO_INFORMATION, job_arrival, starts_on_one_node
from tests.simulator.simulated import arrival, cluster, times

from roost_engine.engine import Engine, EngineConfig
from roost_engine.testing.builders import shape
from roost_sim.catalogue.compositions import find_policy
from roost_sim.policies.gate.switch_wait import MAX_SWITCH_WAIT_S
from roost_sim.runs.driver import Driver
from roost_sim.traces.arrival import Arrival
from roost_sim.worlds.world import FullSpeed


def test_slurm_backfills_jobs_that_end_in_time() -> None:
    policy = find_policy("slurm")
    assert (policy.gate, policy.preemption) == ("easy", "none")
    # 1 holds 4 GPUs and promises to be gone at 100; 2 needs 8 and has its reservation then. 3
    # promises 90 s from 5 on and passes; 4 promises 200 s and does not.
    limits = {"1": 100.0, "2": 50.0, "3": 90.0, "4": 200.0}
    specs = [("1", 0, 100, 4), ("2", 1, 50, 8), ("3", 5, 90, 4), ("4", 6, 90, 4)]
    jobs = [_limited(job_arrival((name, at, work, g)), limits) for name, at, work, g in specs]
    engine = Engine(policy.engine_config(EngineConfig()), policy.build(NO_INFORMATION))
    outcome = Driver(engine, FullSpeed()).run(cluster(1), jobs)
    found = {job_id: begin for job_id, (begin, _) in times(outcome).items()}
    assert found == {"1": 0.0, "2": 100.0, "3": 5.0, "4": 150.0}


def _limited(made: Arrival, limits: Mapping[str, float]) -> Arrival:
    return replace(made, spec=replace(made.spec, time_limit_s=limits[made.spec.job_id]))


def test_the_open_gate_lets_small_jobs_pass_a_large_one_for_ever() -> None:
    stream = [(str(number), 40.0 * number, 120.0, 4) for number in range(3, 80)]
    jobs = [("1", 0.0, 150.0, 4), ("2", 1.0, 10.0, 8), *stream]
    patient = starts_on_one_node("fifo+consolidation+patient", *jobs)["2"]
    starved = starts_on_one_node("fifo", *jobs)["2"]
    assert patient < 1000 < 2900 < starved


@pytest.mark.parametrize("gate", ["switch-wait", "easy-switches"])
def test_slurms_wait_for_a_switch_begins_with_the_first_offer_however_late(gate: str) -> None:
    days_40_s = 40 * 86_400.0  # more than the engine lets any gate wait from the submission
    policy = find_policy(f"fifo+consolidation+{gate}+none")
    engine = Engine(policy.engine_config(EngineConfig()), policy.build(NO_INFORMATION))
    gang = arrival("3", 1.0, 60.0, 16, shape(8, 2))
    jobs = [arrival("1", 0.0, days_40_s, 8), arrival("2", 0.0, days_40_s, 8), gang]
    outcome = Driver(engine, FullSpeed()).run(cluster(2, racks=2), jobs)
    assert times(outcome)["3"][0] == days_40_s + MAX_SWITCH_WAIT_S
