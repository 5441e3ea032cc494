"""The process that reads the page's report."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.daemon.page.past import write_past


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    now_s = time.time()
    argv = [sys.executable, "-m", "roostd.page.report_worker", str(folder)]
    argv += [str(now_s - 86_400.0), str(now_s)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, env=os.environ)


def test_it_prints_the_report_of_a_span_of_time(tmp_path: Path) -> None:
    write_past(tmp_path)
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["job_count"] == 40


def test_a_journal_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
