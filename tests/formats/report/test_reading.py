"""A report is read from journals: of the jobs that ended in its time."""

from pathlib import Path

import pytest
from tests.formats.report.past import DAY_S, past_job

from roost_engine.domain.errors import JournalError
from roost_formats.journal.journal import Journal
from roost_formats.report.reading import read_report


def test_the_jobs_of_its_time_in_every_journal_are_counted(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
        journal = Journal.open(folder)
        journal.write([past_job(number, day=number) for number in range(3)])
        journal.close()
    since_s = 1_800_000_000.0 + DAY_S
    found = read_report(folders, since_s, since_s + 2 * DAY_S)
    assert found.job_count == 4
    assert (found.since_s, found.until_s) == (since_s, since_s + 2 * DAY_S)


def test_a_journal_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError):
        read_report([tmp_path], 0.0, 1.0)
