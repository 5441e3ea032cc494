from dataclasses import replace

from roost_engine.agents.summary import Summary, could_start_together
from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId
from roost_engine.testing.builders import node, shape, share


def summary() -> Summary:
    cluster = Cluster()
    for number in range(3):
        cluster.apply_node(node(f"n{number}", 8))
    cluster.hold(JobId("1"), [share("n1", *range(6))])
    cluster.apply_node(replace(node("n2", 8), usable=False))
    return Summary.of(cluster, 0b111, 12)


def test_it_counts_usable_nodes_by_their_free_gpus() -> None:
    found = summary()
    assert (found.free_counts[2], found.free_counts[3], found.free_counts[8]) == (2, 1, 1)
    assert found.backlog == 0.5


def test_a_job_could_start_where_enough_nodes_have_enough() -> None:
    found = summary()
    assert found.could_start((shape(8),))
    assert found.could_start((shape(8, 2), shape(2, 2)))
    assert not found.could_start((shape(4, 2),))
    assert not found.could_start((shape(17),))


def test_a_promised_job_counts_as_if_it_had_started() -> None:
    found = summary()
    found.promise(shape(8))
    assert not found.could_start((shape(8),))
    assert found.could_start((shape(2),))
    assert found.waiting_gpus == 20


def test_agents_could_start_a_job_together_if_the_others_lend_a_node() -> None:
    own = summary()  # one node with 8 GPUs free, one with 2
    assert could_start_together(own, [own], (shape(8, 2),))
    assert could_start_together(own, [own], (shape(17), shape(2, 4)))
    assert not could_start_together(own, [own], (shape(8, 3),))
    empty = Summary(16, [0] * len(own.free_counts), 0)
    assert could_start_together(empty, [own], (shape(8),))
    assert not could_start_together(own, [empty], (shape(8),))
