"""The heartbeat file: written whole, read strictly."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_slurm.hooks import heartbeat
from roost_slurm.hooks.heartbeat import Heartbeat, HeartbeatError

NAMES = st.lists(st.from_regex(r"[A-Za-z0-9_.+-]{1,20}", fullmatch=True), max_size=5).map(tuple)
BEATS = st.builds(
    Heartbeat,
    at_epoch_s=st.integers(0, 10**12),
    lease_s=st.integers(1, 86_400),
    enforce=NAMES,
    excepted=NAMES,
    models=NAMES,
    accounts=NAMES,
    qos=NAMES,
    share_qos=NAMES,
    owner=st.from_regex(r"[0-9a-f]{0,16}", fullmatch=True),
    registered_epoch_s=st.none() | st.integers(0, 10**12),
)


@given(BEATS)
def test_what_is_written_is_read(beat: Heartbeat) -> None:
    assert heartbeat.parse(heartbeat.render(beat)) == beat


def test_has_the_documented_form() -> None:
    beat = Heartbeat(at_epoch_s=1_800_000_000, lease_s=30, enforce=("main", "debug"))
    assert heartbeat.render(beat) == (
        "roost 1 1800000000 30\nenforce main,debug\nexcept \nmodels \naccounts \nqos \n"
    )


@pytest.mark.parametrize(("age_s", "fresh"), [(0, True), (15, True), (16, False), (-16, False)])
def test_counts_for_fifteen_seconds(age_s: int, fresh: bool) -> None:
    assert Heartbeat(at_epoch_s=1000, lease_s=30).is_fresh(1000 + age_s) is fresh


@pytest.mark.parametrize(
    "text",
    ["", "roost", "roost 2 1 1\n", "roost 1 x 1\n", "roost 1 1 0\n", "roost 1 1 1\nmodels a b\n"],
)
def test_refuses_what_is_no_heartbeat(text: str) -> None:
    with pytest.raises(HeartbeatError):
        heartbeat.parse(text)


def test_passes_over_lines_of_a_newer_daemon() -> None:
    assert heartbeat.parse("roost 1 5 6\nzeal 11\nenforce *\n").enforce == ("*",)


@pytest.mark.parametrize("name", ["a b", "a,b", "a\nb", "", "x" * 65, "é"])
def test_refuses_names_that_would_break_the_file(name: str) -> None:
    with pytest.raises(HeartbeatError):
        Heartbeat(at_epoch_s=0, lease_s=1, enforce=(name,))


def test_refuses_more_than_the_lua_side_reads() -> None:
    many = tuple(f"partition-{i:020}" for i in range(200))
    with pytest.raises(HeartbeatError, match="4096"):
        heartbeat.render(Heartbeat(at_epoch_s=0, lease_s=1, enforce=many))


def test_replaces_the_file_whole_and_readable_for_all(tmp_path: Path) -> None:
    path = tmp_path / "heartbeat"
    heartbeat.write(path, Heartbeat(at_epoch_s=1, lease_s=1))
    with path.open() as old:
        heartbeat.write(path, Heartbeat(at_epoch_s=2, lease_s=1))
        assert heartbeat.parse(old.read()).at_epoch_s == 1  # a reader keeps the one it opened
    assert heartbeat.parse(path.read_text()).at_epoch_s == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["heartbeat"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "heartbeat"
    target.mkdir()  # os.replace refuses
    with pytest.raises(OSError, match="heartbeat"):
        heartbeat.write(target, Heartbeat(at_epoch_s=1, lease_s=1))
    assert os.listdir(tmp_path) == ["heartbeat"]


def test_the_owner_is_the_folder_of_a_machine(tmp_path: Path) -> None:
    owner = heartbeat.owner_of(tmp_path, "ctl")
    assert heartbeat.owner_of(tmp_path / "x" / "..", "ctl") == owner
    others = {heartbeat.owner_of(tmp_path / "x", "ctl"), heartbeat.owner_of(tmp_path, "login")}
    assert owner not in others
    beat = Heartbeat(at_epoch_s=1_800_000_000, lease_s=30, owner=owner)
    assert f"\nowner {owner}\n" in heartbeat.render(beat)
    with pytest.raises(HeartbeatError):
        Heartbeat(at_epoch_s=0, lease_s=1, owner="roost")
