"""Orders by name: what each knows, and whether its keys may be kept."""

from pathlib import Path

import pytest
from tests.formats.models.test_order import installed
from tests.simulator.simulated import arrival

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId
from roost_engine.policies.protocols import KeyedOrder, QueueView
from roost_engine.testing.builders import waiting
from roost_sim.catalogue.compositions import POLICIES, PolicyNameError, find_policy
from roost_sim.catalogue.orders import ORDERS
from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.trace import make_trace
from roost_sim.worlds.fidelity import Regime

# One node of 8 GPUs is busy until 100; then the order decides. (id, submission, work, GPUs)
LOOKS_AT_ALL = ("themis", "drf", "tetris", "asrpt")


def test_an_order_keeps_its_keys_or_looks_at_all_jobs_at_once() -> None:
    work_s = {JobId("1"): 1.0}
    information = PolicyInformation(work_s=work_s, seed=0, predict=lambda: work_s)
    for name, part in ORDERS.items():
        order = part.build(information)
        job = waiting(arrival("1", 0, 1).spec)
        assert order.rank(QueueView(jobs=[job], cluster=Cluster(), at_s=5.0)) == ["1"]
        assert isinstance(order, KeyedOrder) == (name not in LOOKS_AT_ALL), name
        if isinstance(order, KeyedOrder):
            assert order.key(job, 0.0) == order.key(job, 5.0)


def test_a_selectors_file_is_an_order(tmp_path: Path) -> None:
    name = f"selector:{installed(tmp_path)}+consolidation+patient"
    policy = find_policy(name)
    assert policy.regime is Regime.PREDICTED
    assert "selector" in policy.source
    jobs = make_trace("made up", [0.0, 1.0, 2.0], [100.0, 50.0, 10.0], [4, 4, 4])
    run = Run(trace=jobs, cluster=load_cluster("small"), policy=policy)
    assert simulate(run).metrics.completed == 3
    with pytest.raises(PolicyNameError, match="no order"):
        find_policy("selektor+consolidation")


def test_oracles_say_that_they_are() -> None:
    oracles = {name for name in ORDERS if ORDERS[name].regime is Regime.ORACLE}
    assert {"sjf", "ssf"} <= oracles
    for policy in POLICIES.values():
        assert policy.regime is Regime.ORACLE or policy.order not in oracles, policy.name
    assert find_policy("fifo+lwf-1").regime is Regime.ORACLE
