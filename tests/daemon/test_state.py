"""What the tasks share: what was decided for a job, and the faults of Slurm's count of GPUs."""

from tests.daemon.rpc.served import ManualClock

from roost_engine.domain.actions import Place
from roost_engine.domain.events import JobEnded, JobQueued, JobStarted, NodeSeen
from roost_engine.domain.model import JobId, NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import job, node, share
from roostd.config.config import Config
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard

ONE, TWO = JobId("1"), JobId("2")


def state_with_a_node() -> DaemonState:
    clock = ManualClock(0.0)
    board = ProbeBoard(clock.now_s, lambda event: None)
    engine = Engine(EngineConfig(), Policies())
    engine.step(NodeSeen(at_s=0.0, node=node("n1", 2)))
    return DaemonState(version="1", clock=clock, config=Config(), engine=engine, board=board)


def place_of(state: DaemonState, job_id: JobId) -> Place | None:
    return state.place(job_id, state.engine.find(job_id))


def test_a_job_that_is_placed_tells_its_placement_and_how_it_was_chosen() -> None:
    state = state_with_a_node()
    (action,) = state.engine.step(JobQueued(at_s=0.0, job=job(ONE, gpus=2)))[:1]
    assert isinstance(action, Place)

    place = place_of(state, ONE)

    assert place is not None
    assert (place.job_id, place.placement) == (ONE, action.placement)
    assert place.decision.get().candidates[0] == action.placement


def test_a_job_that_waits_has_no_place() -> None:
    state = state_with_a_node()
    state.engine.step(JobQueued(at_s=0.0, job=job(ONE, gpus=2)))
    state.engine.step(JobQueued(at_s=0.0, job=job(TWO, gpus=2)))
    assert place_of(state, TWO) is None


def test_the_place_of_a_job_that_this_engine_did_not_place_is_the_earlier_one() -> None:
    earlier = state_with_a_node()
    earlier.engine.step(JobQueued(at_s=0.0, job=job(ONE, gpus=2)))
    place = place_of(earlier, ONE)
    assert place is not None
    state = state_with_a_node()
    state.engine.step(JobStarted(at_s=1.0, job_id=ONE, shares=(share("n1", 0, 1),)))
    assert place_of(state, ONE) is None

    state.earlier_decisions[ONE] = place

    assert place_of(state, ONE) is place
    assert state.place(TWO, state.engine.find(ONE)) is None


def test_a_new_placement_counts_before_an_earlier_one() -> None:
    state = state_with_a_node()
    state.engine.step(JobQueued(at_s=0.0, job=job(ONE, gpus=1)))
    earlier = place_of(state, ONE)
    assert earlier is not None
    state.earlier_decisions[ONE] = earlier
    state.engine.step(JobEnded(at_s=1.0, job_id=ONE))
    state.engine.step(JobQueued(at_s=2.0, job=job(ONE, gpus=2)))

    place = place_of(state, ONE)

    assert place is not None
    assert place.placement.gpu_indices == (0, 1)


def test_a_daemon_that_has_not_asked_slurm_yet_says_so() -> None:
    assert state_with_a_node().slurm_fault == "Slurm was not asked yet"


def test_stranded_gpus_are_a_fault_with_its_cure() -> None:
    state = state_with_a_node()
    assert state.stranded_fault() == ""
    state.stranded_gpus = {NodeName(f"n{number}"): 2 for number in range(5)}
    assert state.stranded_fault() == (
        "slurmctld counts GPUs as used that no job has: 10 of n0, n1, n2 and 2 more;"
        " cure: scontrol reconfigure"
    )
