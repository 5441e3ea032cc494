"""The shared free set, against a plain list of who holds what."""

from hypothesis import given
from hypothesis import strategies as st

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.seats import Seats
from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_engine.testing.builders import node

A, B, C = JobId("a"), JobId("b"), JobId("c")
N1 = NodeName("n1")


def share(*gpus: int, seat: int = 0) -> tuple[NodeShare, ...]:
    return (NodeShare(N1, gpus, 1, 0, seat),)


def test_a_gpu_with_one_holder_can_be_joined_and_with_two_it_cannot() -> None:
    seats = Seats()
    seats.hold(A, share(0, 1))
    assert list(seats.hosts()) == [(A, N1, 0, (0, 1))]
    seats.hold(B, share(1, seat=1))
    assert list(seats.hosts()) == [(A, N1, 0, (0,))]
    assert (seats.partners(A), seats.partners(B), seats.partners(C)) == ((B,), (A,), ())
    assert seats.holders(N1, 1) == {A: 0, B: 1}
    seats.hold(A, ())
    assert list(seats.hosts()) == [(B, N1, 1, (1,))]


def test_a_job_on_several_nodes_is_no_host() -> None:
    seats = Seats()
    seats.hold(A, (*share(0), NodeShare(NodeName("n2"), (0,))))
    assert list(seats.hosts()) == []


def test_says_which_gpus_no_job_holds_after_some_ends() -> None:
    seats = Seats()
    seats.hold(A, share(0, 1))
    seats.hold(B, share(1, seat=1))
    assert seats.left_alone_count(A, N1, {A}) == 1
    assert seats.left_alone_count(B, N1, {A, B}) == 1
    assert seats.left_alone_count(A, N1, {A, B}) == 2


moves = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sets(st.integers(0, 3), max_size=3), st.integers(0, 1)),
    max_size=25,
)


@given(moves)
def test_claims_return_to_free_whatever_the_order_of_ends(
    steps: list[tuple[str, set[int], int]],
) -> None:
    cluster = Cluster()
    cluster.seats = seats = Seats()
    cluster.apply_node(node("n1", 4))
    held: dict[str, set[int]] = {}
    for name, gpus, seat in steps:
        if gpus:
            cluster.hold(JobId(name), share(*sorted(gpus), seat=seat))
            held[name] = gpus
        else:
            cluster.release(JobId(name))
            held.pop(name, None)
        cluster.check_invariants()
        seats.check_invariants()
        free = set(range(4)).difference(*held.values())
        assert int(cluster.free_mask[0]) == sum(1 << gpu for gpu in free)
        open_to = {gpu for _, _, _, alone in seats.hosts() for gpu in alone}
        counts = [sum(gpu in gpus for gpus in held.values()) for gpu in range(4)]
        assert open_to == {gpu for gpu, count in enumerate(counts) if count == 1}
    for name in list(held):
        cluster.release(JobId(name))
    assert int(cluster.free_mask[0]) == 0b1111
    assert list(seats.hosts()) == []
