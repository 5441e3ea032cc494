"""The site's table of speeds: read whole, or refused with the lines that are wrong."""

from pathlib import Path

import pytest

from roost_engine.domain.errors import ConfigError
from roost_engine.prediction.speed.speed_table import TableOfSpeeds
from roost_engine.prediction.speed.tier_speeds import TierSpeeds
from roostd.config.speed_file import load_speeds

HEAD = "model,gpus,node,rack,across\n"


def write(folder: Path, text: str) -> Path:
    file = folder / "speeds.csv"
    file.write_text(text, encoding="utf-8")
    return file


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_speeds(write(folder, text))
    return [problem.replace(str(folder), "") for problem in caught.value.problems]


def test_speeds_are_relative_to_one_node(tmp_path: Path) -> None:
    rows = load_speeds(write(tmp_path, f"{HEAD}bert, 8, 200, 160, 100\n"))
    table = TableOfSpeeds(rows)
    assert table.speeds("BERT", 8) == TierSpeeds(1.0, 0.8, 0.5)
    assert table.speeds("other", 8) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "/speeds.csv:1: want the line model,gpus,node,rack,across"),
        ("model,gpus\n", "/speeds.csv:1: want the line model,gpus,node,rack,across"),
        (f"{HEAD}a,8,1,1\n", "/speeds.csv:2: want 5 values: model,gpus,node,rack,across"),
        (f"{HEAD},8,1,1,1\n", "/speeds.csv:2: model: want a name"),
        (f"{HEAD}a,1,1,1,1\n", "/speeds.csv:2: gpus: want a whole number of 2 or more, got '1'"),
        (f"{HEAD}a,8,1,0,0\n", "/speeds.csv:2: rack: want a number above 0, got '0'"),
        (f"{HEAD}a,8,1,nan,1\n", "/speeds.csv:2: rack: want a number above 0, got 'nan'"),
        (
            f"{HEAD}a,8,1,.5,.6\n",
            "/speeds.csv:2: want node >= rack >= across: farther apart is never faster",
        ),
        (
            f"{HEAD}a,8,1,1,1\nA,8,1,1,1\n",
            "/speeds.csv:3: A on 8 GPUs is in line 2 too; keep one",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    assert problems(tmp_path, text) == [problem]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.csv: cannot be read: No such file"):
        load_speeds(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes(b"model\xe9")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 5"):
        load_speeds(tmp_path / "latin.csv")
