"""What a killed program leaves behind is ended."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.ledger import until

PROGRAM = """
import subprocess, sys, time
from pathlib import Path
from roost_slurm.testing.parent_watch import ParentWatch

root = Path(sys.argv[1])
watch = ParentWatch(root)
with (root / "log").open("w") as log:
    daemon = subprocess.Popen(["sleep", "600"], stdout=log, start_new_session=True)
print(daemon.pid, flush=True)
time.sleep(600)
"""


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("tmpdir", ["real", "link"])
def test_a_daemon_ends_with_a_program_that_is_killed(tmp_path: Path, tmpdir: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    root = tmp_path / tmpdir / "root"
    root.mkdir()
    argv = [sys.executable, "-c", PROGRAM, str(root)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        assert _is_running(pid)
        program.kill()
    until(lambda: not _is_running(pid) and not root.exists(), "it and its folder are gone")
