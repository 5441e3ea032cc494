"""Themis' finish-time fairness by hand."""

from math import inf

from tests.simulator.simulated import arrival

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId
from roost_engine.policies.protocols import QueueView
from roost_engine.testing.builders import waiting
from roost_sim.information.progress import ProgressTable
from roost_sim.policies.order.job_values import Remaining
from roost_sim.policies.order.themis import WorstOffFirst


def test_a_job_without_work_is_worst_off() -> None:
    order = WorstOffFirst(Remaining({JobId("1"): 0.0}, ProgressTable()))
    assert order.rho(waiting(arrival("1", 0, 1.0).spec), 200.0) == inf


def test_themis_rho_by_hand() -> None:
    work_s = {JobId("1"): 100.0, JobId("2"): 1000.0, JobId("3"): 50.0}
    order = WorstOffFirst(Remaining(work_s, ProgressTable()))
    jobs = [waiting(arrival(str(n), 0, work_s[JobId(str(n))]).spec) for n in (1, 2)]
    jobs.append(waiting(arrival("3", 150, 50).spec))
    # At 200: (200 + 100) / 100 = 3, (200 + 1000) / 1000 = 1.2, (50 + 50) / 50 = 2.
    assert [order.rho(job, 200.0) for job in jobs] == [3.0, 1.2, 2.0]
    # The worst fifth of three, rounded up, is one job; the others follow as they came.
    view = QueueView(jobs=jobs, cluster=Cluster(), at_s=200.0)
    assert order.rank(view) == ["1", "2", "3"]
    assert WorstOffFirst(order.remaining, 1.0).rank(view) == ["1", "3", "2"]
