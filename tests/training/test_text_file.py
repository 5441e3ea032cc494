import os
from pathlib import Path

import pytest

from roost_train.errors import TrainError
from roost_train.text_file import MOST_BYTES, read_text


def test_a_text_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfiterations: 3\n")
    assert read_text(tmp_path / "a") == "iterations: 3\n"


def test_what_is_no_text_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TrainError, match="pipe: a pipe, a socket or a device; want a file"):
        read_text(tmp_path / "pipe")
    with pytest.raises(TrainError, match="/dev/zero: a pipe, a socket or a device"):
        read_text(Path("/dev/zero"))
    (tmp_path / "binary").write_bytes(b"a\xff")
    with pytest.raises(TrainError, match="binary: not UTF-8 at byte 1"):
        read_text(tmp_path / "binary")
    (tmp_path / "large").write_bytes(b"a" * (MOST_BYTES + 1))
    with pytest.raises(TrainError, match="large: larger than 1 MiB"):
        read_text(tmp_path / "large")
    with pytest.raises(IsADirectoryError):
        read_text(tmp_path)
