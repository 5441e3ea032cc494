"""The folder of a training: whose it is, its log, and files that are damaged."""

import subprocess
import sys
from pathlib import Path

import pytest

from roost_train.errors import TrainError
from roost_train.selector.training_folder import TrainingFolder


def test_a_folder_belongs_to_one_training(tmp_path: Path) -> None:
    TrainingFolder(tmp_path / "new" / "one", {"seed": 0})
    TrainingFolder(tmp_path / "new" / "one", {"seed": 0})
    with pytest.raises(TrainError, match="another configuration, trace or cluster"):
        TrainingFolder(tmp_path / "new" / "one", {"seed": 1})
    (tmp_path / "new" / "one" / "config.json").write_bytes(b"\xff")
    with pytest.raises(TrainError, match="another configuration, trace or cluster"):
        TrainingFolder(tmp_path / "new" / "one", {"seed": 0})


def test_of_two_processes_one_trains_in_a_folder(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from roost_train.selector.training_folder import TrainingFolder;"
        "TrainingFolder(Path(sys.argv[1]), {}); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(TrainError, match="another roost-train is at work in this folder"):
            TrainingFolder(tmp_path, {})
        other.communicate()
    TrainingFolder(tmp_path, {})


def test_the_log_ends_before_a_line_that_is_not_whole(tmp_path: Path) -> None:
    files = TrainingFolder(tmp_path, {})
    assert files.lines("a") == []
    files.log({"a": {"n": 1}})
    files.log({"b": {"n": 2}})
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write(b'{"a": {"n": 3\xff')
    files.keep_lines(lambda line: "a" in line)
    files.log({"a": {"n": 4}})
    assert files.lines("a") == [{"n": 1}, {"n": 4}]
    assert files.lines("b") == []


def test_a_log_of_something_else_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("[1]\n")
    assert TrainingFolder(tmp_path, {}).lines("a") == []


@pytest.mark.parametrize("content", [b"", b"[1", b"\xff", b"[" * 100_000])
def test_a_damaged_document_is_named(tmp_path: Path, content: bytes) -> None:
    files = TrainingFolder(tmp_path, {})
    files.write("one.json", "[1]")
    assert files.document("one.json") == [1]
    (tmp_path / "one.json").write_bytes(content)
    with pytest.raises(TrainError, match=r"one\.json: damaged"):
        files.document("one.json")
