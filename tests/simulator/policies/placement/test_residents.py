"""The jobs on a cluster, as changes since the last call."""

from tests.simulator.placing import drawn

from roost_engine.domain.model import JobId
from roost_engine.testing.builders import share
from roost_sim.policies.placement.residents import Residents


def test_changes_are_those_since_the_last_call() -> None:
    cluster, residents = drawn("aa.. b..."), Residents()
    assert residents.changes(cluster) == ([], ["a", "b"])
    assert residents.changes(cluster) == ([], [])
    held = cluster.shares(JobId("a"))
    cluster.release(JobId("a"))
    cluster.hold(JobId("c"), [share("n1", 1)])
    assert residents.changes(cluster) == ([("a", held)], ["c"])


def test_a_job_that_holds_other_gpus_left_and_arrived() -> None:
    cluster, residents = drawn("aa.. ...."), Residents()
    residents.changes(cluster)
    before = cluster.shares(JobId("a"))
    cluster.release(JobId("a"))
    cluster.hold(JobId("a"), [share("n1", 0, 1)])
    assert residents.changes(cluster) == ([("a", before)], ["a"])
