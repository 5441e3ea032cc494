"""The report of the last week for the page: read in a process of its own, and kept for a while."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

SCHEMA = "roost.page-report/1"
SPAN_S = 7 * 86_400.0
KEPT_S = 900.0  # a report is shown to all browsers for this long
LIMIT_S = 600.0


class LastReport:
    """Reads the report when a browser asks, one at a time; every method may be called from threads.

    Args:
        journal: roostd's journal, or its folder.
        run: starts the reading beside the caller.
    """

    def __init__(
        self, journal: Path, run: Callable[[Callable[[], None]], None] | None = None
    ) -> None:
        self._journal, self._run = journal, run or _in_thread
        self._changing = threading.Lock()
        self._is_reading = False
        self._text, self._fault = "null", ""
        self._read_s = float("-inf")

    def json(self) -> str:
        """Return what is known by now; a report that is missing or old is read meanwhile."""
        with self._changing:
            age_s = time.monotonic() - self._read_s
            is_due = age_s >= KEPT_S and not self._is_reading
            self._is_reading = self._is_reading or is_due
        if is_due:
            self._run(self._read)
        with self._changing:
            age_s = time.monotonic() - self._read_s
            head = {
                "schema": SCHEMA,
                "is_reading": self._is_reading,
                "fault": self._fault,
                "age_s": round(age_s, 1) if self._text != "null" else None,
            }
            return f'{json.dumps(head)[:-1]}, "report": {self._text}}}'

    def _read(self) -> None:
        until_s = time.time()
        span = [f"{at_s:.3f}" for at_s in (until_s - SPAN_S, until_s)]
        argv = [sys.executable, "-m", "roostd.page.report_worker", str(self._journal), *span]
        text, fault = "", ""
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",  # a path in the fault may be any bytes
                timeout=LIMIT_S,
            )
            text = done.stdout if done.returncode == 0 else ""
            fault = "" if text else (done.stderr.strip().splitlines() or ["it was stopped"])[-1]
        except subprocess.TimeoutExpired:
            fault = f"the journal was not read in {LIMIT_S:.0f} s"
        except OSError as error:
            fault = str(error)
        with self._changing:
            self._text, self._fault = text.strip() or self._text, fault
            self._read_s, self._is_reading = time.monotonic(), False


def _in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="page-report", daemon=True).start()
