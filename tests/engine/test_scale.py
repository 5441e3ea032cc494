"""The largest cluster that Roost is meant for: 10,000 nodes of 8 GPUs and 20,000 waiting jobs."""

from collections.abc import Sequence

import pytest

from roost_engine.domain.actions import Action, Place
from roost_engine.domain.events import JobEnded, JobQueued, JobStarted, NodeSeen
from roost_engine.domain.model import JobId, NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import shares_of
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import job, node

NODE_COUNT, WAITING_COUNT, GPUS = 10_000, 20_000, 8
AT_ONCE = 2_000  # jobs that are placed before the first of them starts
ENDED_COUNT = 100


def places(actions: Sequence[Action]) -> list[Place]:
    return [action for action in actions if isinstance(action, Place)]


def held(placed: Sequence[Place]) -> set[tuple[NodeName, int]]:
    """Return the GPUs of these jobs, each of which one job has."""
    gpus = [(name, gpu) for one in placed for name, own in one.placement.by_node() for gpu in own]
    assert len(set(gpus)) == len(gpus)
    return set(gpus)


# About 4 s of CPU; with a start that looks at every GPU of every placed job it was minutes.
@pytest.mark.timeout(100)
def test_ten_thousand_nodes_and_twenty_thousand_waiting_jobs() -> None:
    engine = Engine(EngineConfig(), Policies())
    for number in range(NODE_COUNT):
        name, rack = f"n{number}", f"r{number // 32}"
        engine.step(NodeSeen(at_s=0.0, node=node(name, GPUS, rack=rack)))

    running = list[Place]()
    for first in range(0, NODE_COUNT, AT_ONCE):
        names = map(str, range(first, first + AT_ONCE))
        queued = [JobQueued(at_s=1.0, job=job(name, gpus=GPUS)) for name in names]
        placed = [place for event in queued for place in places(engine.step(event))]
        for one in placed:
            shares = shares_of(one.placement)
            engine.step(JobStarted(at_s=2.0, job_id=one.job_id, shares=shares))
        running += placed
    assert len(held(running)) == NODE_COUNT * GPUS

    waiting = [f"9{number % 100}_{number}" for number in range(WAITING_COUNT)]  # tasks of arrays
    for task in waiting:
        assert not places(engine.step(JobQueued(at_s=3.0, job=job(task, gpus=1))))
    assert len(engine.waiting()) == WAITING_COUNT

    later = list[Place]()
    for number in range(ENDED_COUNT):
        later += places(engine.step(JobEnded(at_s=4.0, job_id=JobId(str(number)))))
    ended = held(running[:ENDED_COUNT])
    assert held(later) == ended
    assert len(later) == ENDED_COUNT * GPUS
    assert {one.job_id for one in later} <= set(waiting)

    # Slurm uses job 0's number again, and requeues job 1: both wait behind the others.
    for again in ("0", "1"):
        assert not places(engine.step(JobQueued(at_s=5.0, job=job(again, gpus=1))))
    assert len(engine.waiting()) == WAITING_COUNT - len(later) + 2
    engine.check_invariants()
