"""Slurm's own wait for one leaf switch."""

import pytest
from tests.simulator.simulated import arrival, cluster, simulate

from roost_engine.testing.builders import shape
from roost_sim.catalogue.compositions import find_policy
from roost_sim.information.policy_information import PolicyInformation


@pytest.mark.parametrize(
    ("switches", "starts_s"),
    [
        ("switch-wait", 305.0),  # five minutes from the first offer, at 5
        ("open", 5.0),
    ],
)
def test_switches_wait_five_minutes_for_one_leaf(switches: str, starts_s: float) -> None:
    # Two racks of two nodes. 1 fills n0, 2 the other node of that leaf, the one with fewer nodes
    # left, 3 a node of the other leaf. When 2 ends at 5, one node of each leaf is free.
    policies = find_policy(f"fifo+slurm-switches+{switches}").build(
        PolicyInformation(work_s={}, seed=0)
    )
    work_s = {"1": 1000.0, "2": 5.0, "3": 1000.0}
    holders = [arrival(job_id, 0.0, runs_s, 8) for job_id, runs_s in work_s.items()]
    gang = arrival("4", 1.0, 10.0, 16, shape(8, 2))
    outcome = simulate(cluster(4, racks=2), *holders, gang, policies=policies)
    assert outcome.jobs[-1].started_s == starts_s
