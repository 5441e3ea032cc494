"""Numbers of the learned order in its name: the order of roostd with these settings."""

import numpy as np
import pytest

from roost_engine.queue.learned_order import LearnedOrderConfig
from roost_sim.catalogue.compositions import find_policy
from roost_sim.catalogue.orders import order_part
from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.errors import SimError
from roost_sim.policies.order.learned_numbers import learned_config
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.trace import make_trace
from roost_sim.worlds.fidelity import Regime


def test_numbers_in_a_name_take_the_place_of_the_defaults() -> None:
    policy = find_policy("learned:ageing=0.5:window_backlogs=1+common-shapes")
    assert policy.regime is Regime.PREDICTED
    assert order_part(policy.order).learned == LearnedOrderConfig(ageing=0.5, window_backlogs=1.0)
    assert learned_config({}) == LearnedOrderConfig()


def test_the_numbers_decide() -> None:
    # A job of the user has ended, so sizes count; of two that wait the later one is smaller.
    jobs = make_trace(
        "made up",
        [0.0, 20.0, 21.0, 22.0],
        [10.0, 100.0, 50.0, 50.0],
        [1, 64, 64, 8],
        user_id=np.zeros(4, dtype=np.int32),
    )

    def starts_s(order: str) -> list[float | None]:
        policy = find_policy(f"{order}+consolidation")
        run = Run(trace=jobs, cluster=load_cluster("small"), policy=policy)
        return [job.started_s for job in simulate(run).outcome.jobs]

    as_they_came, by_need = starts_s("learned:ageing=0"), starts_s("learned:ageing=2")
    assert as_they_came == starts_s("fifo")
    assert by_need[3] is not None
    assert as_they_came[3] is not None
    assert by_need[3] < as_they_came[3]


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ("learned:aging=1", "no number 'aging' of the learned order: there are ageing"),
        ("learned:ageing=-1", "want ageing from 0, finite, got -1"),
        ("learned:window_s=nan", "want window_s from 0, finite, got nan"),
        ("learned:window_s=inf", "want window_s from 0, finite, got inf"),
        ("learned:ageing", "is not KEY=NUMBER"),
        ("las:ageing=1", "have the number 'longest_wait_s' alone"),
        ("s-rank:longest_wait_s=0", "want longest_wait_s above 0, got 0"),
        ("learnd", "did you mean learned"),
    ],
)
def test_bad_names_say_what_is_wrong(order: str, why: str) -> None:
    with pytest.raises(SimError, match=why):
        find_policy(f"{order}+consolidation")
