"""Orders by name: what each knows, and whether its keys may be kept."""

from tests.simulator.simulated import arrival

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId
from roost_engine.policies import KeyedOrder, QueueView
from roost_engine.testing.builders import waiting
from roost_sim.catalogue.compositions import (
    ORDERS,
    POLICIES,
    PolicyInformation,
    Regime,
    find_policy,
)

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


def test_oracles_say_that_they_are() -> None:
    oracles = {name for name in ORDERS if ORDERS[name].regime is Regime.ORACLE}
    assert {"sjf", "ssf"} <= oracles
    for policy in POLICIES.values():
        assert policy.regime is Regime.ORACLE or policy.order not in oracles, policy.name
    assert find_policy("fifo+lwf-1").regime is Regime.ORACLE
