"""The table of measured pairs is read whole or refused with every problem."""

from pathlib import Path

import pytest

from roost_engine.domain.errors import ConfigError
from roost_engine.sharing.pairs import PairSpeed
from roostd.config.pair_file import load_pairs

HEAD = "model,beside,speed,spread\n"


def test_reads_one_pair_a_line(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text(HEAD + "bert, ncf, 0.97, 0.02\n")
    assert load_pairs(tmp_path / "pairs.csv") == (PairSpeed("bert", "ncf", 0.97, 0.02),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("model,beside\n", "want the line model,beside,speed,spread"),
        (HEAD + "a,b,1\n", "want 4 values"),
        (HEAD + "a,,1,0\n", "beside: want a name"),
        (HEAD + "a,b,0,0\n", "speed: want a number above 0"),
        (HEAD + "a,b,1.5,0\n", "speed: want a number from 0 to 1, got '1.5'"),
        (HEAD + "a,b,nan,0\n", "speed: want a number from 0 to 1, got 'nan'"),
        (HEAD + "a,b,1,x\n", "spread: want a number from 0 to 1, got 'x'"),
        (HEAD + "a,b,1,0\nA,b,0.9,0\n", ":3: A beside b is in line 2 too; keep one"),
        (HEAD + 'a,b,1,"' + 200_000 * "0" + "\n", ":2: field larger than field limit"),
    ],
)
def test_says_what_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "pairs.csv").write_text(text)
    with pytest.raises(ConfigError, match=problem):
        load_pairs(tmp_path / "pairs.csv")


def test_a_table_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_pairs(tmp_path / "none.csv")
    (tmp_path / "pairs.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_pairs(tmp_path / "pairs.csv")
