import subprocess
import sys

from roostd.cli import EXIT_CONFIG

_RAISE = """
import resource
from roostd.ops.files import file_limit, raise_file_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096))
before = file_limit()
raise_file_limit()
print(before, file_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_limit_of_open_files_is_raised_as_far_as_the_kernel_allows() -> None:
    said = subprocess.run(
        [sys.executable, "-c", _RAISE], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.split() == ["256", "4096", "4096", "4096"]


_FEW = """
import resource
from roostd.cli import main
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
raise SystemExit(main(["--set", "paths.state_dir=/nowhere"]))
"""


def test_too_few_files_are_one_line_and_no_traceback() -> None:
    """With 15 to 18 gRPC ended the process by a signal, with 20 it was a traceback."""
    said = subprocess.run(
        [sys.executable, "-c", _FEW], capture_output=True, text=True, timeout=60, check=False
    )
    assert said.returncode == EXIT_CONFIG
    assert said.stderr.splitlines() == [
        "roostd: open files: this process may have 20, and needs 64 at least; cure: LimitNOFILE= in"
        " the unit, or ulimit -n"
    ]
