import subprocess
import sys
from pathlib import Path

import pytest

from roostd.ops.files import FileTooLarge, read_bounded

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


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "book.json"
    path.write_text("12345", encoding="utf-8")
    assert read_bounded(path, 5) == "12345"
    with pytest.raises(FileTooLarge, match="larger than 4 bytes"):
        read_bounded(path, 4)
    path.write_bytes(b"\xff")
    with pytest.raises(UnicodeDecodeError):
        read_bounded(path, 4)
