"""A journal forgets its oldest runs, a few thousand rows at a time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.formats.journal.test_journal import POLICIES, head, read

from roost_engine.domain.events import Tick
from roost_engine.domain.model import NodeName
from roost_engine.testing.builders import load_seen
from roost_formats.journal.journal import Journal
from roost_formats.journal.pruning import JournalLimits
from roost_formats.journal.records import Step


def test_oldest_runs_go_first_when_the_file_is_too_large(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, JournalLimits(max_bytes=200_000))
    load = np.zeros((8, 4), np.float32)
    for run in range(4):
        journal.write([head(run * 100.0)])
        journal.write(
            [
                Step(load_seen(at_s=run * 100.0 + i, name=NodeName("n"), load=load), ())
                for i in range(400)
            ]
        )
    before = journal.size_bytes()

    while journal.prune():
        pass

    assert before > 200_000 >= journal.size_bytes()
    journal.close()
    assert read(tmp_path)[-1][-1].event.at_s == 699.0


def test_runs_that_ended_long_ago_go(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, JournalLimits(max_age_s=3600.0))
    journal.write([head(0.0, epoch_s=1000.0), Step(Tick(at_s=1.0), ())])
    journal.write([head(10.0, epoch_s=1000.0), Step(Tick(at_s=11.0), ())])

    while journal.prune():
        pass

    journal.close()
    assert [[step.event.at_s for step in run] for run in read(tmp_path)] == [[11.0]]


def test_the_names_of_policies_are_deleted_with_their_run(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path, JournalLimits(max_age_s=1.0))
    old, new = replace(head(epoch_s=0.0), policies=POLICIES), replace(head(), policies=POLICIES)
    journal.write([old, replace(new, epoch_of_zero_s=1.0)])
    while journal.prune():
        pass
    rows = journal._db.execute("SELECT DISTINCT run FROM run_policies").fetchall()
    journal.close()
    assert rows == [(2,)]
