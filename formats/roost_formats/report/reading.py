"""Reads the report of some journals."""

from collections.abc import Sequence
from pathlib import Path

from roost_formats.journal.reader import JournalReader
from roost_formats.report.figures import ReportFigures
from roost_formats.report.tally import Tally


def read_report(journals: Sequence[Path], since_s: float, until_s: float) -> ReportFigures:
    """Return the figures of the jobs that ended in a span of time.

    Args:
        journals: files, or the folders that have them; one that a daemon writes at the time too.
        since_s: seconds since 1970.
        until_s: the same.

    Raises:
        JournalError: one cannot be read.
    """
    tally = Tally()
    for path in journals:
        reader = JournalReader(path)
        try:
            for job in reader.past_jobs(since_s, until_s):
                tally.add(job)
        finally:
            reader.close()
    return tally.figures(since_s, until_s)
