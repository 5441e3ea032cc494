"""free_capacity: what each node has free while jobs begin and cease to hold parts of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.cluster.free_capacity import FreeCapacity
from roost_engine.cluster.link_table import MAX_GPUS
from roost_engine.cluster.node_sets import NO_NODES
from roost_engine.testing.builders import GIB, share


def capacity_of(*healthy: int) -> FreeCapacity:
    """Nodes of kind 0 with these masks of healthy GPUs, 64 CPUs and 8 GiB each."""
    free = FreeCapacity()
    for node, mask in enumerate(healthy):
        free.add_node()
        free.set_gpus(node, 0, mask)
        free.cpus[node], free.memory_bytes[node] = 64, 8 * GIB
    return free


def test_a_new_node_has_nothing_free() -> None:
    free = FreeCapacity()
    free.add_node()
    assert (free.gpu_masks[0], free.gpus[0], free.cpus[0], free.memory_bytes[0]) == (0, 0, 0, 0)
    assert (free.gpu_count, free.freed) == (0, NO_NODES)


def test_a_share_is_taken_from_its_node_and_given_back() -> None:
    free = capacity_of(0xFF, 0xFF)
    held = share("b", 0, 2, cpu_count=6, memory_bytes=GIB)
    free.claim(1, held)
    assert free.gpu_masks[:2].tolist() == [0xFF, 0b11111010]
    assert [free.gpus[node] for node in (0, 1)] == [8, 6]
    assert (free.cpus[1], free.memory_bytes[1]) == (58, 7 * GIB)
    assert free.gpu_count == 14
    assert free.groups[1].free == 0b11111010
    free.unclaim(1, held)
    assert free.gpu_masks[:2].tolist() == [0xFF, 0xFF]
    assert (free.cpus[1], free.memory_bytes[1], free.gpu_count) == (64, 8 * GIB, 16)


def test_only_nodes_that_gave_something_back_are_freed() -> None:
    free = capacity_of(0xFF, 0xFF, 0xFF)
    for node in (0, 2):
        free.claim(node, share("any", 0))
    assert free.freed == NO_NODES
    free.unclaim(2, share("any", 0))
    assert free.freed == 0b100


def test_a_gpu_of_two_holders_is_free_when_both_have_left() -> None:
    free = capacity_of(0b11)
    for indices in ((0,), (0, 1)):
        free.claim(0, share("a", *indices))
    free.unclaim(0, share("a", 0, 1))
    assert (free.gpu_masks[0], free.gpu_count) == (0b10, 1)
    free.unclaim(0, share("a", 0))
    assert (free.gpu_masks[0], free.gpu_count) == (0b11, 2)


def test_a_faulty_gpu_is_not_free_also_after_its_holder_has_left() -> None:
    free = capacity_of(0b11)
    free.claim(0, share("a", 0))
    free.set_gpus(0, 0, 0b10)
    free.unclaim(0, share("a", 0))
    assert (free.gpu_masks[0], free.gpus[0], free.gpu_count) == (0b10, 1, 1)
    free.set_gpus(0, 0, 0b11)
    assert (free.gpu_masks[0], free.gpus[0], free.gpu_count) == (0b11, 2, 2)


def test_another_kind_moves_a_node_to_another_group_with_the_same_gpus_free() -> None:
    free = capacity_of(0b11, 0b11)
    free.set_gpus(1, 3, 0b11)
    assert [(group.kind, group.free, group.nodes) for group in free.groups] == [
        (0, 0b11, 0b01),
        (3, 0b11, 0b10),
    ]
    assert free.gpu_count == 4


def test_cpus_and_memory_go_below_zero_where_jobs_hold_more_than_there_is() -> None:
    free = capacity_of(0xFF)
    held = share("a", 0, cpu_count=70, memory_bytes=9 * GIB)
    free.claim(0, held)
    assert (free.cpus[0], free.memory_bytes[0]) == (-6, -GIB)
    free.unclaim(0, held)
    assert (free.cpus[0], free.memory_bytes[0]) == (64, 8 * GIB)


def test_more_nodes_than_the_first_array_holds() -> None:
    free = capacity_of(*[0xFF] * 130)
    free.claim(129, share("last", 7))
    assert free.gpu_masks[[0, 64, 128, 129]].tolist() == [0xFF, 0xFF, 0xFF, 0x7F]
    assert free.gpu_count == 130 * 8 - 1


claims = st.tuples(st.integers(0, 2), st.sets(st.integers(0, 3)), st.integers(0, 9))


@given(st.lists(st.one_of(claims, st.integers(0, 10))))
def test_capacity_follows_every_claim(steps: list[tuple[int, set[int], int] | int]) -> None:
    """A tuple is a new claim: node, GPUs and CPUs; a number ends the claim at that position."""
    free, held = capacity_of(0b1111, 0b1111, 0b0111), list[tuple[int, set[int], int]]()
    for step in steps:
        if isinstance(step, tuple):
            held.append(step)
            free.claim(step[0], share("any", *sorted(step[1]), cpu_count=step[2]))
        elif step < len(held):
            node, gpus, cpu_count = held.pop(step)
            free.unclaim(node, share("any", *sorted(gpus), cpu_count=cpu_count))
        holders = [
            [sum(gpu in gpus for at, gpus, _ in held if at == node) for gpu in range(MAX_GPUS)]
            for node in range(3)
        ]
        cpus = [64 - sum(cpu_count for at, _, cpu_count in held if at == node) for node in range(3)]
        free.check([0, 0, 0], [0b1111, 0b1111, 0b0111], holders, cpus, [8 * GIB] * 3)


@pytest.mark.parametrize("wrong", ["kinds", "free masks", "count of free GPUs", "free CPUs"])
def test_check_catches_drift(wrong: str) -> None:
    free, kinds, cpus = capacity_of(0b11), [0], [64]
    match wrong:
        case "kinds":
            kinds = [1]
        case "free masks":
            free.gpu_masks[0] = 0b01
        case "count of free GPUs":
            free.gpu_count += 1
        case _:
            cpus = [63]
    with pytest.raises(AssertionError, match=f"{wrong}.* drifted"):
        free.check(kinds, [0b11], [[0] * MAX_GPUS], cpus, [8 * GIB])
