"""observation.interference_keeper: what was learned survives a restart, damage begins empty."""

from pathlib import Path

import pytest
from tests.daemon.rpc.served import ManualClock
from tests.daemon.telemetry.test_progress import report, running

from roost_engine.engine import Engine
from roostd.app.observation.interference_keeper import InterferenceKeeper
from roostd.config.config import Config
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard
from roostd.telemetry.interference_file import read_learned


def started(path: Path) -> tuple[DaemonState, InterferenceKeeper, Engine]:
    clock, engine = ManualClock(0.0), running("1", "2")
    board = ProbeBoard(clock.now_s, lambda event: None)
    state = DaemonState(version="1", clock=clock, config=Config(), engine=engine, board=board)
    return state, InterferenceKeeper(clock, state.progress, path), engine


def slow_down(state: DaemonState, engine: Engine) -> None:
    """Report 10 steps per second, then 5."""
    for at_s, steps in ((0.0, 0), (100.0, 1000), (200.0, 1500)):
        report(state.progress, engine, steps, at_s)


def test_rows_and_best_rates_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "interference.json"
    state, keeper, engine = started(path)
    slow_down(state, engine)
    keeper.store()
    again, _, engine = started(path)
    assert again.progress.learned() == state.progress.learned()
    assert again.progress.table.kinds()
    report(again.progress, engine, 0, 0.0)
    found = report(again.progress, engine, 500, 100.0).speed
    assert found is not None  # compared with the best rate before the restart
    assert found.speed_frac == pytest.approx(0.5)


def test_it_is_stored_every_five_minutes_where_a_job_reported(tmp_path: Path) -> None:
    path = tmp_path / "interference.json"
    state, keeper, engine = started(path)
    assert isinstance(state.clock, ManualClock)
    state.clock.at_s = 301.0
    keeper.poll()
    assert not path.exists()
    slow_down(state, engine)
    keeper.poll()
    assert not path.exists()
    state.clock.at_s = 602.0
    keeper.poll()
    keeper.store()  # waits for the thread, and has nothing else to write
    first = path.read_bytes()
    path.unlink()
    keeper.store()
    assert not path.exists()
    assert read_learned(first.decode()) == state.progress.learned()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{}", b'{"schema": 1}', b"[" * 5000])
def test_damage_begins_empty_and_is_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "interference.json"
    path.write_bytes(content)
    state, keeper, engine = started(path)
    assert "learning began again" in state.progress.fault
    assert not state.progress.table.kinds()
    slow_down(state, engine)
    keeper.store()
    assert not state.progress.fault
    again, _, _ = started(path)
    assert again.progress.table.kinds()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    state, keeper, engine = started(tmp_path / "gone" / "interference.json")
    slow_down(state, engine)
    keeper.store()
    assert "No such file" in state.progress.fault
