"""Which GPUs reservations of GPUs hold: as measured on 24.11.5."""

from dataclasses import replace

from roost_engine.domain.model import JobId, NodeName, NodeShare, NodeSpec
from roost_engine.testing.builders import node
from roost_slurm.reservations import Reservation
from roostd.slurm.reserved_gpus import ReservedGpus, reserved_gpus

START_S, END_S = 2_000.0, 9_000.0
NODES = {spec.name: spec for spec in (node("n1", cpu_count=32), node("n2", cpu_count=32))}
NONE: dict[JobId, tuple[NodeShare, ...]] = {}


def reservation(name: str, gpu_count: int, **cores: int) -> Reservation:
    return Reservation(
        name=name,
        start_epoch_s=START_S,
        end_epoch_s=END_S,
        nodes=tuple(cores),
        cores=cores,
        cpu_count=sum(cores.values()),
        gpu_count=gpu_count,
    )


def holds(*reservations: Reservation, **held: ReservedGpus) -> dict[str, dict[str, list[int]]]:
    return by_node(reserved_gpus(reservations, NODES, NONE, held))


def by_node(found: dict[str, ReservedGpus]) -> dict[str, dict[str, list[int]]]:
    return {
        name: {share.node: list(share.gpu_indices) for share in gpus.shares}
        for name, gpus in found.items()
    }


def test_a_reservation_has_the_lowest_indices_of_its_node() -> None:
    assert holds(reservation("r", 3, n1=6)) == {"r": {"n1": [0, 1, 2]}}


def test_nodes_have_as_many_gpus_as_their_part_of_the_cores() -> None:
    """As 24.11.5 printed it: 10 and 2 of 12 cores, of 6 GPUs."""
    assert holds(reservation("r", 6, n1=10, n2=2)) == {"r": {"n1": [0, 1, 2, 3, 4], "n2": [0]}}


def test_gpus_of_jobs_at_the_time_when_it_is_made_are_passed_over() -> None:
    jobs = {JobId("1"): (NodeShare(NodeName("n1"), (0, 1)),)}
    made = reserved_gpus((reservation("r", 3, n1=6),), NODES, jobs, {})
    assert by_node(made) == {"r": {"n1": [2, 3, 4]}}
    later = reserved_gpus((reservation("r", 3, n1=6),), NODES, NONE, made)
    assert later == made


def test_a_later_reservation_has_what_the_earlier_ones_leave() -> None:
    jobs = {JobId("1"): (NodeShare(NodeName("n1"), (0, 1)),)}
    first, second = reservation("r", 3, n1=6), reservation("r2", 2, n1=4)
    made = reserved_gpus((first,), NODES, jobs, {})
    both = reserved_gpus((first, second), NODES, NONE, made)
    assert by_node(both) == {"r": {"n1": [2, 3, 4]}, "r2": {"n1": [0, 1]}}
    swapped = reserved_gpus((second, first), NODES, NONE, made)
    assert by_node(swapped) == by_node(both)


def test_a_reservation_that_has_changed_is_looked_at_again() -> None:
    made = reserved_gpus((reservation("r", 3, n1=6),), NODES, NONE, {})
    assert holds(reservation("r", 2, n2=4), **made) == {"r": {"n2": [0, 1]}}
    moved = replace(reservation("r", 3, n1=6), start_epoch_s=3_000.0)
    found = reserved_gpus((moved,), NODES, NONE, made)
    assert (found["r"].start_epoch_s, found["r"].shares) == (3_000.0, made["r"].shares)


def test_reservations_of_all_cores_or_without_gpus_are_left_out() -> None:
    whole = reservation("whole", 3, n1=32)
    assert holds(whole, reservation("cores", 0, n1=6)) == {}


def test_more_gpus_than_are_free_are_taken_from_jobs() -> None:
    jobs = {JobId("1"): (NodeShare(NodeName("n1"), (0, 1, 2, 3, 4, 5)),)}
    made = reserved_gpus((reservation("r", 3, n1=6),), NODES, jobs, {})
    assert by_node(made) == {"r": {"n1": [0, 6, 7]}}


def test_nodes_that_are_not_known_hold_none() -> None:
    few: dict[NodeName, NodeSpec] = {NodeName("n1"): NODES[NodeName("n1")]}
    assert by_node(reserved_gpus((reservation("r", 2, n1=2, gone=2),), few, NONE, {})) == {
        "r": {"n1": [0]}
    }
