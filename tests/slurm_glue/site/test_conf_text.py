"""Files of Slurm as text, whatever people have written there."""

from pathlib import Path

from roost_slurm.site.conf_text import conf_lines, read_conf, replace_conf


def test_a_backslash_at_the_end_goes_on_below() -> None:
    first, second, third = conf_lines("A=1 \\\n B=2 # why\n# none\nC=3 \\")
    assert (first.number, first.text, first.comment) == (1, "A=1  B=2 ", "# why")
    assert first.lines == ("A=1 \\", " B=2 # why")
    assert (second.number, second.text, second.comment) == (3, "", "# none")
    assert (third.number, third.text) == (4, "C=3 ")


def test_a_comment_is_taken_away_before_slurm_looks_for_a_backslash() -> None:
    first, second = conf_lines("# old \\\nA=1 \\ # why\n B=2 # too")
    assert (first.text, first.comment) == ("", "# old \\")
    assert (second.number, second.text, second.comment) == (2, "A=1  B=2 ", "# why # too")


def test_lines_end_as_on_any_system() -> None:
    assert [line.text for line in conf_lines("A=1\r\nB=2 \\\r\n\tC=3\r\n")] == ["A=1", "B=2 \tC=3"]


def test_text_of_another_encoding_is_written_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_bytes(b"# Schl\xfcssel \xf0\x9f\n")
    path.chmod(0o640)
    replace_conf(path, read_conf(path) + "A=1\n")
    assert path.read_bytes() == b"# Schl\xfcssel \xf0\x9f\nA=1\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [*tmp_path.iterdir()] == [path]
