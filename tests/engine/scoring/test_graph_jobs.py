import pytest
from tests.engine.scoring.graph_cluster import cluster_of, talks, unknown

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId
from roost_engine.scoring.graph_jobs import ResidentJobs, typical
from roost_engine.testing.builders import share


def residents_of(cluster: Cluster) -> ResidentJobs:
    residents = ResidentJobs(talks)
    residents.update(cluster, cluster.take_changed_jobs(), unknown, lambda rack: rack % 2)
    return residents


def test_a_job_on_one_node_uses_no_port() -> None:
    cluster = cluster_of([[0, 0]])
    cluster.hold(JobId("1"), [share("n0-0", 0, 1)])
    residents = residents_of(cluster)
    assert residents.network == {0: 0.0}
    assert residents.jobs_on[0][JobId("1")].here_frac == talks(None, 2).local_frac


def test_a_job_across_racks_loads_ports_and_uplinks_once_each() -> None:
    cluster = cluster_of([[0, 0], [0], [0]])
    cluster.hold(JobId("1"), [share("n0-0", 0), share("n0-1", 0), share("n2-0", 0)])
    residents = residents_of(cluster)
    across = talks(None, 3).across_frac
    assert residents.network == {0: across, 1: across, 3: across}
    assert residents.rack_crossing == {0: across, 2: across}
    assert residents.pod_crossing == {}  # racks 0 and 2 are in one pod


def test_sums_come_back_to_zero_when_jobs_end() -> None:
    cluster = cluster_of([[0], [0]])
    residents = residents_of(cluster)
    for number in range(3):
        cluster.hold(JobId(f"{number}"), [share("n0-0", number), share("n1-0", number)])
    residents.update(cluster, cluster.take_changed_jobs(), unknown, lambda rack: rack)
    assert residents.pod_crossing[0] == pytest.approx(1.5)
    for number in range(3):
        cluster.release(JobId(f"{number}"))
    touched = residents.update(cluster, cluster.take_changed_jobs(), unknown, lambda rack: rack)
    assert touched == {0, 1}
    assert residents.pod_crossing == {0: 0.0, 1: 0.0}
    assert residents.network == {0: 0.0, 1: 0.0}


def test_a_job_without_gpus_is_nowhere() -> None:
    cluster = cluster_of([[0]])
    cluster.hold(JobId("1"), [share("n0-0")])
    assert residents_of(cluster).jobs_on == {}


def test_nothing_known_is_typical_and_one_gpu_is_silent() -> None:
    assert typical(None, 1) == (0, 0, 0)
    assert typical(None, 8).across_frac > typical(None, 8).rack_frac > 0
