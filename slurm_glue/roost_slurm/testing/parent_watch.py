"""Ends what a killed program leaves behind: SIGKILL gives it no time to stop its daemons.

A process of its own waits until its stdin ends, which happens when the program is gone. The signal
of prctl(PR_SET_PDEATHSIG) would not do: slurmctld clears it when it becomes SlurmUser.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

_TIMEOUT_S = 10.0
_POLL_S = 0.05


class ParentWatch:
    """Once this program is gone, kills what has files open in a folder, and removes the folder.

    Args:
        root: the folder. The daemons log into it, and no other program has files open there.
    """

    def __init__(self, root: Path) -> None:
        # A session of its own: Ctrl-C must not end it.
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(root)],
            cwd="/",
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def stop(self) -> None:
        """End it: the program has stopped its daemons itself."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


def holders(root: Path) -> list[int]:
    """Return the processes that have a file open below a folder."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and has_open_file(pid, root)]


def has_open_file(pid: int, root: Path) -> bool:
    """Return whether a process has a file open below a folder."""
    root = root.resolve()  # /proc names no links
    with contextlib.suppress(OSError):  # it ended meanwhile
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if root in file.readlink().parents:
                    return True
    return False


def kill_all(find: Callable[[], list[int]], timeout_s: float) -> None:
    """Kill processes until none is found, or the time is over."""
    deadline = time.monotonic() + timeout_s
    while (pids := find()) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def main() -> None:
    """Wait for the end of stdin, then clean up."""
    root = Path(sys.argv[1])
    sys.stdin.buffer.read()
    kill_all(lambda: holders(root), _TIMEOUT_S)
    # Here: their import takes a while, and few programs are killed.
    from roost_slurm.testing.cluster_plan import RunFolder
    from roost_slurm.testing.job_processes import kill_jobs

    kill_jobs(RunFolder(root))
    shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
