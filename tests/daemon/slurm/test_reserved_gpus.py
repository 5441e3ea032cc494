"""Which GPUs reservations of GPUs hold: as measured on 24.11.5."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

import pytest

from roost_engine.domain.model import NodeName, NodeShare
from roost_engine.testing.builders import node
from roost_slurm.text.reservations import Reservation
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roostd.slurm.reserved_gpus import Poll, ReservedGpus, reserved_gpus
from roostd.slurm.rules.site_rules import SiteRules

START_S, END_S = 2_000.0, 9_000.0
NODES = {spec.name: spec for spec in (node("n1", cpu_count=32), node("n2", cpu_count=32))}
NONE = Poll(100.0, ())
PINNED = (("TresPerNode", "gres:gpu:g0:1"),)
Holder: TypeAlias = tuple[QueuedJob, tuple[NodeShare, ...]]
Holders: TypeAlias = Sequence[Holder]


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


def job(number: int, *gpus: int, **facts: Any) -> Holder:
    """Return a job that runs on some GPUs of n1."""
    plain = {"start_epoch_s": 50.0, "tres": (("TresPerNode", "gres:gpu:1"),)}
    running = {"nodes": "n1", "state": SlurmJobState.RUNNING}
    record = QueuedJob(number=number, **{**running, **plain, **facts})
    return record, (NodeShare(NodeName("n1"), gpus),)


def found(
    *reservations: Reservation,
    polls: Sequence[Poll] = (NONE,),
    before: Mapping[str, ReservedGpus] = MappingProxyType({}),
) -> dict[str, ReservedGpus]:
    return reserved_gpus(SiteRules(nodes=NODES, reservations=reservations), polls, before)


def made(*reservations: Reservation, beside: Holders = ()) -> dict[str, ReservedGpus]:
    """Return what reservations have that were made while some jobs ran, from 100 to 102."""
    before, first, then = (Poll(at_s, beside) for at_s in (100.0, 101.0, 102.0))
    seen = found(*reservations, polls=(before, first))
    return found(*reservations, polls=(first, then), before=seen)


def chosen(gpus: dict[str, ReservedGpus]) -> dict[str, dict[str, list[int]]]:
    """Return the GPUs that stand for those of each reservation, of which all must be sure."""
    assert not any(one.unsure_nodes for one in gpus.values())
    return by_node(gpus)


def by_node(gpus: dict[str, ReservedGpus]) -> dict[str, dict[str, list[int]]]:
    return {
        name: {share.node: list(share.gpu_indices) for share in one.shares}
        for name, one in gpus.items()
    }


def test_a_reservation_has_the_lowest_indices_of_its_node() -> None:
    assert chosen(made(reservation("r", 3, n1=6))) == {"r": {"n1": [0, 1, 2]}}


def test_nodes_have_as_many_gpus_as_their_part_of_the_cores() -> None:
    """As 24.11.5 printed it: 10 and 2 of 12 cores, of 6 GPUs."""
    expected = {"r": {"n1": [0, 1, 2, 3, 4], "n2": [0]}}
    assert chosen(made(reservation("r", 6, n1=10, n2=2))) == expected


def test_gpus_of_jobs_at_the_time_when_it_is_made_are_passed_over() -> None:
    one = reservation("r", 3, n1=6)
    first = made(one, beside=[job(1, 0, 1)])
    assert chosen(first) == {"r": {"n1": [2, 3, 4]}}
    assert found(one, before=first) == first


def test_a_later_reservation_has_what_the_earlier_ones_leave() -> None:
    first, second = reservation("r", 3, n1=6), reservation("r2", 2, n1=4)
    before = made(first, beside=[job(1, 0, 1)])
    for order in ((first, second), (second, first)):
        seen = found(*order, polls=(Poll(103.0, ()), Poll(104.0, ())), before=before)
        both = found(*order, polls=(Poll(104.0, ()), Poll(105.0, ())), before=seen)
        assert chosen(both) == {"r": {"n1": [2, 3, 4]}, "r2": {"n1": [0, 1]}}


def test_a_reservation_that_has_changed_is_looked_at_again() -> None:
    first = made(reservation("r", 3, n1=6))
    assert by_node(found(reservation("r", 2, n2=4), before=first)) == {"r": {"n2": [0, 1]}}
    moved = found(replace(reservation("r", 3, n1=6), start_epoch_s=3_000.0), before=first)["r"]
    assert (moved.start_epoch_s, moved.shares) == (3_000.0, first["r"].shares)


def test_reservations_of_all_cores_or_without_gpus_are_left_out() -> None:
    whole = reservation("whole", 3, n1=32)
    assert found(whole, reservation("cores", 0, n1=6)) == {}


def test_more_gpus_than_are_free_are_taken_from_jobs() -> None:
    first = made(reservation("r", 3, n1=6), beside=[job(1, *range(6))])
    assert chosen(first) == {"r": {"n1": [0, 6, 7]}}


def test_nodes_that_are_not_known_hold_none() -> None:
    rules = SiteRules(
        nodes={NodeName("n1"): NODES[NodeName("n1")]},
        reservations=(reservation("r", 2, n1=2, gone=2),),
    )
    assert by_node(reserved_gpus(rules, (NONE,), {})) == {"r": {"n1": [0]}}


# -- what is not known at first ------------------------------------------------------------------

ONE = reservation("r", 3, n1=6)


def possible(gpus: dict[str, ReservedGpus]) -> list[int]:
    return sorted(gpus["r"].possible[NodeName("n1")])


def test_until_the_queue_was_read_after_it_any_free_gpu_may_be_reserved() -> None:
    now = Poll(101.0, [job(1, 0, 1)])
    first = found(ONE, polls=(Poll(100.0, [job(1, 0, 1)]), now))
    assert possible(first) == [2, 3, 4, 5, 6, 7]
    assert by_node(first) == {"r": {"n1": [2, 3, 4]}}
    assert first["r"].unsure_nodes == {"n1"}
    assert found(ONE, polls=(now,), before=first) == first, "the same poll, read for a fresh engine"


@pytest.mark.parametrize(
    ("end_s", "gpus"),
    [
        pytest.param(103.0, [2, 3, 4], id="it was there until the last poll"),
        pytest.param(102.0, [0, 1, 2, 3, 4], id="it ended after the reservation was seen"),
        pytest.param(101.0, [0, 1, 2, 3, 4], id="it ended before that"),
    ],
)
def test_gpus_that_a_job_held_for_a_part_of_the_time_may_be_reserved_or_not(
    end_s: float, gpus: list[int]
) -> None:
    before, first, then = (
        Poll(at_s, [job(1, 0, 1)] if at_s < end_s else []) for at_s in (100.0, 101.0, 102.0)
    )
    seen = found(ONE, polls=(before, first))
    assert possible(found(ONE, polls=(first, then), before=seen)) == gpus


def test_a_job_that_started_meanwhile_may_have_come_before_or_after_it() -> None:
    seen = found(ONE, polls=(NONE, Poll(101.0, [])))
    then = found(ONE, polls=(Poll(101.0, []), Poll(102.0, [job(1, 0)])), before=seen)
    assert possible(then) == [0, 1, 2, 3]


def test_a_job_that_completes_may_have_left_its_gpus_already() -> None:
    assert possible(made(ONE, beside=[job(1, 0, state=SlurmJobState.COMPLETING)])) == [0, 1, 2, 3]


def test_a_reservation_that_is_older_than_the_daemon_may_have_any_gpus_that_no_job_has() -> None:
    jobs = [
        job(1, 0, time_limit_s=60.0),  # may be on reserved GPUs: it ends before the window
        job(2, 1, 2, tres=PINNED),
    ]
    older = found(ONE, polls=(Poll(100.0, jobs),))
    assert possible(older) == [0, 3, 4, 5, 6, 7]
    assert older["r"].unsure_nodes == {"n1"}


# -- what jobs show ------------------------------------------------------------------------------


def unsure() -> dict[str, ReservedGpus]:
    """Return a reservation of three of GPUs 0 to 4, seen at 101."""
    first = found(ONE, polls=(Poll(100.0, [job(1, 0, 1)]), Poll(101.0, [job(1, 0, 1)])))
    return found(ONE, polls=(Poll(101.0, ()), Poll(102.0, ())), before=first)


def then(*holders: Holder) -> list[int]:
    return possible(found(ONE, polls=(Poll(200.0, holders),), before=unsure()))


def test_jobs_of_a_reservation_show_its_gpus() -> None:
    inside = {"reservation": "r", "start_epoch_s": 150.0}
    assert then(job(2, 2, 3, 4, **inside)) == [2, 3, 4]
    assert then(job(2, 0, 1, **inside), job(3, 2, **inside)) == [0, 1, 2]
    first = found(ONE, polls=(Poll(200.0, [job(2, 3, 4, **inside)]),), before=unsure())
    assert possible(first) == [0, 1, 2, 3, 4]
    assert by_node(first) == {"r": {"n1": [0, 3, 4]}}
    assert possible(found(ONE, polls=(Poll(300.0, [job(3, 2, **inside)]),), before=first)) == [
        2,
        3,
        4,
    ]


def test_a_wrong_choice_is_mended_by_jobs_of_the_reservation() -> None:
    inside = job(2, 3, 4, 5, reservation="r", start_epoch_s=150.0)
    assert possible(found(ONE, polls=(Poll(200.0, [inside]),), before=made(ONE))) == [3, 4, 5]
    some = job(2, 7, reservation="r", start_epoch_s=150.0)
    assert possible(found(ONE, polls=(Poll(200.0, [some]),), before=made(ONE))) == [0, 1, 2, 7]


def test_jobs_that_slurm_placed_beside_it_show_that_their_gpus_are_free() -> None:
    slurms = {"start_epoch_s": 150.0, "time_limit_s": 7_200.0}
    assert then(job(2, 0, 1, **slurms)) == [2, 3, 4]
    for shows_nothing in ({"time_limit_s": 60.0}, {"tres": PINNED}, {"start_epoch_s": 100.0}):
        assert then(job(2, 0, 1, **{**slurms, **shows_nothing})) == [0, 1, 2, 3, 4]


def test_jobs_of_a_flex_reservation_show_nothing() -> None:
    flex = replace(ONE, flags=frozenset({"FLEX"}))
    inside = job(2, 2, 3, 4, reservation="r", start_epoch_s=150.0)
    assert possible(found(flex, polls=(Poll(200.0, [inside]),), before=unsure())) == [0, 1, 2, 3, 4]
