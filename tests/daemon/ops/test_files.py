import subprocess
import sys

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
