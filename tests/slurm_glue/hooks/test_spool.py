"""The spool file: many writers, one reader, nothing forged."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_slurm.hooks import spool
from roost_slurm.hooks.spool import Drained, Ended, SpoolError, SpoolEvent, SpoolReader, Started

JOB_IDS = st.from_regex(r"[1-9][0-9]{0,8}(_[0-9]{1,5})?", fullmatch=True)
EVENTS = st.one_of(
    st.builds(
        spool.Submitted,
        st.integers(0, 2**32 - 1),
        st.from_regex(r"[A-Za-z0-9_.,*+-]{1,200}", fullmatch=True),
    ),
    st.builds(spool.Changed),
    st.builds(Started, JOB_IDS),
    st.builds(Ended, JOB_IDS),
)


@given(EVENTS)
def test_what_is_written_is_read(event: SpoolEvent) -> None:
    assert spool.parse_line(spool.render(event)) == event


@pytest.mark.parametrize(
    "line",
    [
        "",
        "start",
        "start x",
        "start 1 2",
        "start 1_",
        "start ١",
        "END 1",
        "change 1",
        "submit -1 main",
        "submit 1 ma in",
        f"submit 1 {'x' * 201}",
        f"start {'1' * 11}",
        "start 1\n",
    ],
)
def test_refuses_what_is_no_line(line: str) -> None:
    with pytest.raises(SpoolError):
        spool.parse_line(line)


def test_a_job_id_cannot_forge_a_line(tmp_path: Path) -> None:
    with pytest.raises(SpoolError):
        spool.append(tmp_path / "events", Started("1\nend 2"))
    assert not (tmp_path / "events").exists()


def test_each_line_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "events"
    reader = SpoolReader(path)
    assert reader.drain() == Drained((), 0)
    spool.append(path, Started("1"))
    spool.append(path, Ended("1_7"))
    assert reader.drain().events == (Started("1"), Ended("1_7"))
    assert reader.drain().events == ()


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "events"
    reader = SpoolReader(path)
    path.write_bytes(b"start 1\nsta")
    assert reader.drain().events == (Started("1"),)
    with path.open("ab") as file:
        file.write(b"rt 2\n")
    assert reader.drain().events == (Started("2"),)


def test_garbage_is_counted_and_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(b"start 1\n\xff\xfe\x00\n" + b"x" * 10_000 + b"\nend 1\n")
    assert SpoolReader(path).drain() == Drained((Started("1"), Ended("1")), 2)


def test_a_long_file_is_emptied_after_reading(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_bytes(b"start 1\n" * (spool.TRUNCATE_BYTES // 8 + 1))
    reader = SpoolReader(path)
    assert len(reader.drain().events) == spool.TRUNCATE_BYTES // 8 + 1
    assert path.stat().st_size == 0
    spool.append(path, Started("2"))
    assert reader.drain().events == (Started("2"),)


def test_a_replaced_file_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "events"
    reader = SpoolReader(path)
    spool.append(path, Started("1"))
    reader.drain()
    spool.append(tmp_path / "new", Started("2"))
    os.replace(tmp_path / "new", path)
    assert reader.drain().events == (Started("2"),)


def test_a_file_that_was_removed_and_made_again_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "events"
    reader = SpoolReader(path)
    spool.append(path, Started("1"))
    reader.drain()
    # A name of the same file keeps its number from being given to another.
    os.link(path, tmp_path / "same")
    path.unlink()
    assert reader.drain().events == ()
    os.rename(tmp_path / "same", path)
    assert reader.drain().events == (Started("1"),)


def test_writers_stop_when_roostd_does_not_read(tmp_path: Path) -> None:
    path = tmp_path / "events"
    with path.open("wb") as file:
        file.truncate(spool.REFUSE_BYTES + 1)
    with pytest.raises(SpoolError, match="roostd does not read it"):
        spool.append(path, Started("1"))


def test_writers_follow_no_link_and_hang_on_no_pipe(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=name):
            spool.append(tmp_path / name, Started("1"))
    assert not (tmp_path / "elsewhere").exists()


def test_concurrent_writers_keep_their_lines_whole(tmp_path: Path) -> None:
    path = tmp_path / "events"
    ids = [[str(1000 * writer + i) for i in range(1, 101)] for writer in range(8)]

    def write(mine: list[str]) -> None:
        for job_id in mine:
            spool.append(path, Started(job_id))

    threads = [threading.Thread(target=write, args=(mine,)) for mine in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    drained = SpoolReader(path).drain()
    assert drained.refused_count == 0
    assert set(drained.events) == {Started(job_id) for mine in ids for job_id in mine}
