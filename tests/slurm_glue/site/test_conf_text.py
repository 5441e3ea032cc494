"""Files of Slurm as text, whatever people have written there."""

import os
from pathlib import Path

import pytest

from roost_slurm.site.conf_text import all_lines, conf_lines, fetched_copy, read_conf, replace_conf


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


def test_included_files_are_read_in_their_places(tmp_path: Path) -> None:
    """Names without a folder are beside slurm.conf, also in a file that lies elsewhere."""
    (tmp_path / "sub").mkdir()
    conf = tmp_path / "slurm.conf"
    conf.write_text("A=1\nB=0 ClusterName=c\n\tINCLUDE sub/%c.conf # why\nInclude absent\nB=2\n")
    (tmp_path / "sub" / "c.conf").write_text("include more.conf\nInclude slurm.conf\n")
    (tmp_path / "more.conf").write_text("C=3\n")
    found = [(path.name, line.number, line.text) for path, line in all_lines(conf)]
    assert found[:3] == [
        ("slurm.conf", 1, "A=1"),
        ("slurm.conf", 2, "B=0 ClusterName=c"),
        ("more.conf", 1, "C=3"),
    ]
    assert found[-1] == ("slurm.conf", 5, "B=2")
    assert len(found) < 50  # a file that includes itself ends at some depth


def test_what_slurmd_and_sackd_have_fetched_is_a_copy(tmp_path: Path) -> None:
    """/run/slurm/conf is a link to slurmd's conf-cache, or sackd's own folder."""
    cache, link, sackds = tmp_path / "conf-cache", tmp_path / "etc", tmp_path / "login"
    cache.mkdir()
    link.symlink_to(cache)
    sackds.symlink_to("/run/slurm/conf")
    for folder in (cache, link, sackds, Path("/run/slurm/conf")):
        assert "a copy of the controller's files" in fetched_copy(folder)
    assert fetched_copy(tmp_path) == ""


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


def test_only_a_line_feed_ends_a_line() -> None:
    """Else the rest of such a comment would become a setting when the file is written again."""
    odd = "# page\x0cGresTypes=mic\x0b\x85\u2028A=1\nB=2\r\n"
    first, second = conf_lines(odd)
    assert (first.text, second.text, second.lines) == ("", "B=2", ("B=2\r",))
    assert "\n".join([*first.lines, *second.lines]) + "\n" == odd


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    """slurm.conf is often a link into a folder that all machines share."""
    shared, link = tmp_path / "shared.conf", tmp_path / "slurm.conf"
    shared.write_bytes(b"A=1\r\n")
    link.symlink_to(shared)
    replace_conf(link, read_conf(link) + "B=2\n")
    assert link.is_symlink()
    assert shared.read_bytes() == b"A=1\r\nB=2\n"


def test_a_link_to_no_file_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    masked = tmp_path / "masked.conf"
    masked.symlink_to("/dev/null")
    replace_conf(masked, "A=1\n")
    assert masked.read_text() == "A=1\n"
    assert not Path("/dev/null").is_file()


def test_the_owner_of_a_file_stays(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives files away")
    path = tmp_path / "slurm.conf"
    path.write_text("A=1\n")
    os.chown(path, 1234, 1235)
    replace_conf(path, "A=2\n")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)
