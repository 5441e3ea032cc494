"""Parts of a daemon for tests of one part at a time: a state without Slurm, and recorders."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.daemon.rpc.served import ManualClock

from roost_engine.domain.events import Event, NodeSeen
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import node
from roost_formats.journal.codec import encode
from roost_formats.journal.journal import Journal
from roost_formats.journal.records import RunHead
from roostd.app.decision.recorder import Recorder
from roostd.config.config import Config
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard

HEAD = RunHead(
    version="0",
    policy="heuristic",
    epoch_of_zero_s=0.0,
    began_s=0.0,
    config=encode(EngineConfig()),
)


class Parts:
    """A daemon's state at 100 s with nodes of 8 GPUs, and the events that its parts emit."""

    def __init__(self, *nodes: str, policies: Policies | None = None, **settings: Any) -> None:
        self.clock = ManualClock()
        self.emitted: list[Event] = []
        config = {"mode": "enforce", "slurm": {"lease_s": 60.0}} | settings
        self.state = DaemonState(
            version="9.9",
            clock=self.clock,
            config=Config.model_validate(config),
            engine=Engine(EngineConfig(), policies or Policies()),
            board=ProbeBoard(self.clock.now_s, self.emitted.append),
            slurm_fault="",
        )
        for name in nodes:
            self.state.engine.step(NodeSeen(at_s=100.0, node=node(name)))


def no_disk() -> Recorder:
    """A recorder that records nothing, so that nothing waits for it."""
    return Recorder(None, fault="no disk")


@contextlib.asynccontextmanager
async def recording(folder: Path) -> AsyncIterator[Recorder]:
    """A recorder that writes a journal, with a run begun."""
    recorder = Recorder(Journal.open(folder))
    recorder.begin_run(HEAD)
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        recorder.close()
        await asyncio.wait_for(task, 60)
