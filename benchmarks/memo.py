"""What keeping the policies' knowledge costs roostd: one memo a minute, with full tables."""

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import _harness

from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Knowledge, Plugins
from roost_engine.plugins.stacks import OrderKind
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.speed.speed_predictor import SeenRuns
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import job
from roost_formats.journal.codec import encode
from roost_formats.journal.journal import Journal
from roost_formats.journal.records import Memo, RunHead
from roostd.app.decision.recorder import Recorder
from roostd.app.observation.knowledge_keeper import KnowledgeKeeper
from roostd.config.config import Config
from roostd.ops.clock import MonotonicClock
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard

_USERS = 300


class Written(Recorder):
    """A recorder that keeps the newest memo, and writes nothing by itself."""

    memo_kept = Memo(b"")

    def write_memo(self, memo: Memo) -> int:
        """See Recorder."""
        self.memo_kept = memo
        return 0


def teach(known: Predictors, first: int, count: int) -> None:
    """Begin and end jobs, each of a user and a name of its own."""
    for number in range(first, first + count):
        name = "".join(chr(97 + int(digit)) for digit in str(number))  # digits do not count
        spec = replace(job(f"{number}", user_id=number % _USERS), name=name)
        known.history.begin(spec, 0.0, 1.0, float(number))
        known.history.add(spec, 300.0, number + 300.0)
        known.speed.tables()["speed"][f"{spec.user_id} 1 {name}"] = SeenRuns(run_count=1)


def size_bytes(memo: Memo) -> int:
    return len(memo.knowledge) + sum(
        len("".join(key)) + len(record or b"") for key, record in memo.entries.items()
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--jobs", type=_harness.whole, default=10_000, help="with names of their own"
    )
    parser.add_argument(
        "--ends", type=_harness.whole_or_0, default=20, help="jobs that end in the minute"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    policies = Plugins(order=OrderKind.LEARNED).policies(HeuristicScore())
    assert policies.predictors is not None
    clock, engine = MonotonicClock(0.0, 0.0), Engine(EngineConfig(), policies)
    state = DaemonState(
        version="0",
        clock=clock,
        config=Config(),
        engine=engine,
        board=ProbeBoard(clock.now_s, lambda event: None),
    )
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal.open(Path(folder))
        recorder = Written(journal)
        keeper = KnowledgeKeeper(Knowledge(), state, recorder)
        figures: dict[str, object] = {}
        head = RunHead(version="0", policy="", epoch_of_zero_s=0.0, began_s=0.0, config=b"")
        journal.write([replace(head, config=encode(engine.config))])
        for name, first, count in (
            ("all", 0, options.jobs),
            ("minute", options.jobs, options.ends),
        ):
            teach(policies.predictors, first, count)
            began_s = time.thread_time()
            keeper.write()
            figures[f"{name}_loop_ms"] = round(1e3 * (time.thread_time() - began_s), 2)
            figures[f"{name}_bytes"] = size_bytes(recorder.memo_kept)
            figures[f"{name}_entries"] = len(recorder.memo_kept.entries)
            journal.write([recorder.memo_kept])
        tables = policies.predictors.tables()
        figures["kinds"] = sum(map(len, tables.values()))
        journal.close()
    _harness.report(figures, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
