"""The audit log: one whole line a change, for the daemon's user only."""

import json
import resource
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from roost_engine.domain.errors import JournalError
from roost_formats.audit import chain
from roostd.ops.audit import FILE_NAME, HEAD_NAME, append


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / FILE_NAME).read_text().splitlines()]


def test_each_change_adds_a_line_and_earlier_lines_stay(tmp_path: Path) -> None:
    before = datetime.now(tz=UTC)
    append(tmp_path, "pin_timer", "alice", timer="8/high", pinned_s=300.0)
    append(tmp_path, "unpin_timer", "bob", timer="8/high", pinned_s=None)

    first, second = lines(tmp_path)

    assert list(first) == ["at", "action", "by", "timer", "pinned_s", "after", "chain"]
    assert (first["action"], first["by"], first["pinned_s"]) == ("pin_timer", "alice", 300.0)
    assert (second["action"], second["by"], second["pinned_s"]) == ("unpin_timer", "bob", None)
    age_s = (datetime.fromisoformat(str(first["at"])) - before).total_seconds()
    assert -0.001 <= age_s < 60


def test_a_name_cannot_forge_a_line_or_fill_the_disk(tmp_path: Path) -> None:
    append(tmp_path, "pin_timer", 'eve"\n{"action": "none"}' + "x" * 1_000)

    (line,) = lines(tmp_path)

    assert str(line["by"]).startswith('eve"?{"action": "none"}xxx')
    assert len(str(line["by"])) == 64


def test_only_the_daemons_user_may_read_it(tmp_path: Path) -> None:
    append(tmp_path, "pin_timer", "alice")
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) & 0o077 == 0


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / FILE_NAME).symlink_to(target)

    with pytest.raises(JournalError, match=r"audit\.log: .*; nothing was changed"):
        append(tmp_path, "pin_timer", "eve")

    assert target.read_text() == "precious"


def test_without_a_folder_the_change_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No such file or directory; nothing was changed"):
        append(tmp_path / "missing", "pin_timer", "alice")


def test_a_line_that_a_full_disk_cuts_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    append(tmp_path, "pin_timer", "alice")
    before = (tmp_path / FILE_NAME).read_text()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, hard))
    try:
        with pytest.raises(JournalError, match="nothing was changed"):
            append(tmp_path, "pin_timer", "bob")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert (tmp_path / FILE_NAME).read_text() == before
    append(tmp_path, "pin_timer", "carol")
    assert [line["by"] for line in lines(tmp_path)] == ["alice", "carol"]


def test_lines_are_a_chain_that_rotation_does_not_end(tmp_path: Path) -> None:
    first = append(tmp_path, "pin_timer", "alice")
    append(tmp_path, "pin_timer", "bob")
    (tmp_path / FILE_NAME).rename(tmp_path / "audit.log.1")
    last = append(tmp_path, "pin_timer", "carol")

    before = chain.check((tmp_path / "audit.log.1").read_bytes())
    after = chain.check((tmp_path / FILE_NAME).read_bytes(), before.last_hash)
    assert (before.after, before.breaks, after.breaks) == (chain.START, (), ())
    assert after.last_hash == last != first
    assert (tmp_path / HEAD_NAME).read_text() == f"{last}\n"
    assert stat.S_IMODE((tmp_path / HEAD_NAME).stat().st_mode) == 0o600


def test_a_line_that_a_power_cut_left_half_does_not_swallow_the_next_one(tmp_path: Path) -> None:
    append(tmp_path, "pin_timer", "ann")
    append(tmp_path, "pin_timer", "bob")
    file = tmp_path / FILE_NAME
    file.write_bytes(file.read_bytes()[:-40])

    append(tmp_path, "mode", "eve")

    first, half, last = file.read_text().splitlines()
    assert [json.loads(line)["by"] for line in (first, last)] == ["ann", "eve"]
    assert half.startswith('{"at": ')
    assert [found.line_number for found in chain.check(file.read_bytes()).breaks] == [2]


def test_a_log_of_an_earlier_version_is_continued_and_covered(tmp_path: Path) -> None:
    old = '{"at": "2026-01-01", "action": "pin_timer", "by": "alice"}\n'
    (tmp_path / FILE_NAME).write_text(old * 3)
    append(tmp_path, "pin_timer", "bob")

    text = (tmp_path / FILE_NAME).read_bytes()
    assert chain.check(text).breaks == ()
    assert chain.check(text.replace(b"alice", b"alise", 1)).breaks[0].line_number == 4


@pytest.mark.parametrize("head", ["", "nonsense", "x" * 64, "0" * 10_000])
def test_a_damaged_head_refuses_no_change(tmp_path: Path, head: str) -> None:
    (tmp_path / HEAD_NAME).write_text(head)
    append(tmp_path, "pin_timer", "alice")
    assert chain.check((tmp_path / FILE_NAME).read_bytes()).after == chain.START
