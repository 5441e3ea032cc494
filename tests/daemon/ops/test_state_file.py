"""state_file: what a damaged file and a full disk do, and that a file is written whole."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from roost_engine.domain.errors import RoostError
from roostd.ops.state_file import StateFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sums.json"


def sums(path: Path) -> StateFile:
    return StateFile(path, "sums", 5)


def test_what_was_written_is_read_again_and_a_missing_file_is_no_fault(path: Path) -> None:
    assert sums(path).read(int) is None
    assert sums(path).write("12345")
    again = sums(path)
    assert (again.read(int), again.fault) == (12345, "")
    assert [each.name for each in path.parent.iterdir()] == ["sums.json"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"123456", "ValueError: is larger than 5 bytes"),
        (b"\xff", "UnicodeDecodeError: 'utf-8' codec can't decode"),
        (b"some", "ValueError: invalid literal"),
    ],
)
def test_a_damaged_file_is_a_fault_that_is_logged(path: Path, content: bytes, why: str) -> None:
    path.write_bytes(content)
    found = sums(path)
    with capture_logs() as logs:
        assert found.read(int) is None
    assert found.fault.startswith(f"{path}: {why}")
    assert [each["event"] for each in logs] == ["sums_not_read"]
    assert found.write("7")
    assert (found.fault, found.read(int)) == ("", 7)


def test_errors_of_roost_speak_for_themselves(path: Path) -> None:
    def refuse(text: str) -> int:
        raise RoostError(f"{text} is no sum")

    path.write_text("x", encoding="utf-8")
    found = sums(path)
    assert found.read(refuse) is None
    assert found.fault == f"{path}: x is no sum"


def test_a_folder_that_is_gone_leaves_the_reason(tmp_path: Path) -> None:
    found = sums(tmp_path / "gone" / "sums.json")
    with capture_logs() as logs:
        assert not found.write("7")
    assert found.fault == f"{tmp_path / 'gone' / 'sums.json'}: No such file or directory"
    assert [each["event"] for each in logs] == ["sums_not_stored"]
