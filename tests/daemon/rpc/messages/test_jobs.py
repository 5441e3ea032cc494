"""Jobs in the words of operator.proto: what each sentence says is so."""

import pytest
from tests.daemon.app.parts import Parts

from roost_engine.domain.events import (
    JobEnded,
    JobQueued,
    JobStarted,
    JobWithdrawn,
    TopologySeen,
)
from roost_engine.domain.model import JobId, NodeName
from roost_engine.testing.builders import bridges, job, share
from roost_proto.v1 import operator_pb2 as pb
from roostd.rpc.messages import jobs
from roostd.rpc.messages.outlook import outlooks
from roostd.state import DaemonState, LeftQueue, Owner, UnmanagedJob

ONE, NINE = JobId("1"), JobId("9")


@pytest.fixture
def state() -> DaemonState:
    """Nodes n1 and n2 of 8 GPUs in bridged pairs, at 100 s."""
    state = Parts("n1", "n2").state
    for name in ("n1", "n2"):
        links = TopologySeen(at_s=100.0, name=NodeName(name), links=bridges(), gpu_uuids=())
        state.engine.step(links)
    return state


def listed(state: DaemonState) -> dict[str, pb.Job]:
    return {one.job_id: one for one in jobs.jobs(state, False, dict(outlooks(state)))}


def test_a_job_that_slurm_placed_and_that_has_ended_is_not_listed(state: DaemonState) -> None:
    started = JobStarted(at_s=101.0, job_id=NINE, shares=(share("n1", 0),))
    state.engine.step(started)
    state.unmanaged[NINE] = UnmanagedJob(reason="its partition is off", is_blocked=False)
    assert set(listed(state)) == {"9"}

    state.engine.step(JobEnded(at_s=102.0, job_id=NINE))
    assert listed(state) == {}
    assert jobs.job(state, NINE).state == pb.JOB_STATE_ENDED


def test_a_left_job_that_slurm_has_forgotten_is_told_of_as_ended(state: DaemonState) -> None:
    state.left_queue[NINE] = LeftQueue(
        reason="partition debug is off", owner=Owner(42, "debug", 3), submit_s=60.0, left_s=90.0
    )
    told = jobs.job(state, NINE)
    assert (told.state, told.user_id, told.gpu_count) == (pb.JOB_STATE_ENDED, 42, 3)
    assert (told.waited_s, told.ended_ago_s) == (30.0, 10.0)
    assert told.reason == (
        "Roost had not placed it: partition debug is off. What became of it: sacct -j 9"
    )
    assert listed(state) == {}
    assert [one.job_id for one in jobs.jobs(state, True, dict(outlooks(state)))] == ["9"]


def test_a_held_job_waits_and_is_not_left_to_slurm(state: DaemonState) -> None:
    state.engine.step(JobQueued(at_s=100.0, job=job("1", gpus=8, nodes=3)))
    state.engine.step(JobWithdrawn(at_s=101.0, job_id=ONE, reason="is held"))
    state.unmanaged[ONE] = UnmanagedJob(reason="is held", is_blocked=True)

    told = listed(state)["1"]
    assert (told.state, told.reason) == (pb.JOB_STATE_WAITING, "is held")
    assert jobs.blocked_count(state) == 1


def test_a_job_that_slurm_places_asked_for_as_many_gpus_as_slurm_says(state: DaemonState) -> None:
    state.unmanaged[NINE] = UnmanagedJob(reason="runs in reservation x", is_blocked=False)
    state.owners[NINE] = Owner(42, "main", 3, "train", "vision", "high", 77)

    told = listed(state)["9"]
    assert told.gpu_count == 3
    assert (told.name, told.account, told.qos, told.priority) == ("train", "vision", "high", 77)


def test_an_observed_job_that_has_given_its_gpus_back_still_asked_for_them(
    state: DaemonState,
) -> None:
    state.owners[NINE] = Owner(42, "main", 2)
    state.engine.step(JobStarted(at_s=101.0, job_id=NINE, shares=(share("n1"),)))
    assert listed(state)["9"].gpu_count == 2


def test_a_job_of_two_nodes_that_completes_still_shows_what_it_got(state: DaemonState) -> None:
    state.engine.step(JobQueued(at_s=100.0, job=job("1", gpus=2, nodes=2)))
    got = (share("n1", 0, 1), share("n2", 0, 1))
    assert state.note_start(ONE, got, resumes=False)
    state.engine.step(JobStarted(at_s=101.0, job_id=ONE, shares=got))
    left = got[1:]
    assert not state.note_start(ONE, left, resumes=True)
    state.engine.step(JobStarted(at_s=102.0, job_id=ONE, shares=left))

    told = listed(state)["1"]
    assert [at.node for at in told.allocated] == ["n1", "n2"]
    assert not told.HasField("planned_link_score")


def test_links_are_those_of_the_gpus_that_slurm_gave(state: DaemonState) -> None:
    watched = job("1", gpus=2, binding=False)
    state.engine.step(JobQueued(at_s=100.0, job=watched))
    state.engine.step(JobStarted(at_s=101.0, job_id=ONE, shares=(share("n1", 5, 6),)))

    told = listed(state)["1"]
    assert told.planned_link_score == told.best_link_score
    assert told.link_score < told.best_link_score


def test_the_best_links_are_those_of_the_kind_of_node_that_slurm_gave(state: DaemonState) -> None:
    assert state.link_scores([share("n1", 0, 1), share("n2", 5, 6)]) is not None
    real, best = state.link_scores([share("n1", 0, 1)]) or (0, 0)
    assert real == best > 0


def test_links_on_a_node_that_is_gone_are_not_known(state: DaemonState) -> None:
    assert state.link_scores([share("n9", 0, 1)]) is None
    assert state.link_scores([share("n1", 0, 99)]) is None
