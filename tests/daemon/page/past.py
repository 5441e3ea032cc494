"""A journal of jobs that ended an hour ago, for tests of the page's report."""

import time
from pathlib import Path
from typing import Any

from tests.formats.report.past import past_job

from roost_engine.domain.model import NodeName, NodeShare
from roost_formats.journal.journal import Journal

SAME = (NodeShare(NodeName("n1"), (0, 1)),)


def write_past(folder: Path) -> None:
    """30 watched jobs that Slurm put elsewhere, one of them kept by a limit, and 10 enforced."""
    end_s = time.time() - 3_600.0
    times: dict[str, Any] = {
        "queued_s": end_s - 3_720.0,
        "decided_s": end_s - 3_700.0,
        "started_s": end_s - 3_600.0,
        "ended_s": end_s,
    }
    enforced = times | {"is_binding": True, "allocated": SAME, "link_score": 400}
    journal = Journal.open(folder)
    journal.write([past_job(number, 60_001 + number % 4, **times) for number in range(29)])
    journal.write([past_job(29, limit="QOSMaxGRESPerUser", limited_s=4_000.0, **times)])
    journal.write([past_job(number, **enforced) for number in range(30, 40)])
    journal.close()
