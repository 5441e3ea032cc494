"""Rows of tables as people and programs write them, and what is said of those that are none."""

import gzip
import os
from pathlib import Path

import pytest

from roost_train.errors import BadTable
from roost_train.interference.table_rows import read_rows


def write(folder: Path, text: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "model,batch size,speed\nbert,4,0.5\n",
        "\ufeffModel, Batch-Size ,SPEED,\r\n bert ,4, 0.5 ,\r\n",
        "# measured on a Monday\n\nmodel;batch_size;speed\n# second half\nbert;4;0.5\n\n",
        "model\tbatch_size\tspeed\tnotes\nbert\t4\t0.5\tgood, with a comma",
    ],
)
def test_one_row_in_many_spellings(tmp_path: Path, text: str) -> None:
    (row,) = read_rows(write(tmp_path, text), ("model", "batch_size"))
    assert (row["model"], row.number("batch_size"), row.number_of("speed")) == ("bert", 4.0, 0.5)


def test_a_gzipped_table_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(b"model\nbert\n"), "table.csv.gz")
    assert [row["model"] for row in read_rows(path)] == ["bert"]


@pytest.mark.parametrize("text", ["", "n/a", "NaN", "-", "None"])
def test_what_is_absent_is_no_number(tmp_path: Path, text: str) -> None:
    (row,) = read_rows(write(tmp_path, f"model,speed\nbert,{text}\n"))
    assert row.number_of("speed", "other") is None
    with pytest.raises(BadTable, match=r"table.csv:2: speed is .*; want a number"):
        row.number("speed")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "table.csv: has no line with the names of columns"),
        ("# nothing\n", "has no line with the names"),
        ("model\nbert\n", "table.csv:1: no column speed; there are model"),
        ("model,speed,Model\n", ":1: column model comes twice"),
        ("# one\nmodel,speed\n\nbert,0.5\nbert\n", "table.csv:5: 1 fields; want 2"),
        ("model,speed\nbert,0.5,0.6\n", ":2: 3 fields; want 2"),
        ('model,speed\n"bert\ntwo",0.5\n', "over several lines"),
        ('model,speed\n"be"rt,0.5\n', "is no CSV"),
        (b"model,speed\n\xff\xfe,1\n", "is no UTF-8 text"),
    ],
)
def test_what_is_no_table_is_named_with_its_line(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    with pytest.raises(BadTable) as refused:
        list(read_rows(write(tmp_path, text), ("model", "speed")))
    assert said in str(refused.value)


@pytest.mark.parametrize("text", ["inf", "-inf", "fast", "0x10", "1e999"])
def test_a_field_that_is_no_number_is_refused(tmp_path: Path, text: str) -> None:
    (row,) = read_rows(write(tmp_path, f"speed\n{text}\n"))
    with pytest.raises(BadTable, match=r"table.csv:2: speed is .*; want a number"):
        row.number_of("speed")


def test_what_is_no_file_or_a_huge_or_broken_one_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(BadTable, match="is no file"):
            list(read_rows(path))
    with (tmp_path / "sparse.csv").open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(BadTable, match="is larger than 256 MiB"):
        list(read_rows(tmp_path / "sparse.csv"))
    with pytest.raises(BadTable):
        list(read_rows(write(tmp_path, b"model\n", "plain.csv.gz")))
    with pytest.raises(BadTable):
        list(read_rows(write(tmp_path, gzip.compress(b"model\n" * 99)[:-9], "cut.csv.gz")))
    damaged = bytearray(gzip.compress(bytes(range(256)) * 9))
    damaged[10:14] = b"\xff" * 4
    with pytest.raises(BadTable, match="while decompressing"):
        list(read_rows(write(tmp_path, bytes(damaged), "damaged.csv.gz")))
