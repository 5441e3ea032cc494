"""The state that most tests of messages begin with."""

import pytest
from tests.daemon.rpc.served import ManualClock

from roost_engine.domain.events import Event, JobQueued, NodeSeen
from roost_engine.domain.model import NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import job, node
from roostd.config.config import Config
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard


@pytest.fixture
def state() -> DaemonState:
    """Nodes n1 and n2 of 4 GPUs without probes at 100 s; job 1 placed on two GPUs of n1."""
    clock = ManualClock()
    told: list[Event] = []
    state = DaemonState(
        version="1.2",
        clock=clock,
        config=Config(),
        engine=Engine(EngineConfig(), Policies()),
        board=ProbeBoard(clock.now_s, told.append),
        slurm_fault="",
    )
    for name in ("n1", "n2"):
        state.engine.step(NodeSeen(at_s=100.0, node=node(name, 4, cpu_count=8)))
        list(state.board.introduce(NodeName(name)))
    state.engine.step(JobQueued(at_s=100.0, job=job("1", gpus=2)))
    return state
