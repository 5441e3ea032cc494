"""The heartbeat says which partitions' jobs job_submit.lua gives a lease."""

import time
from pathlib import Path
from typing import Any

import pytest
import structlog

from roostd.config.config import Config
from roostd.ops.heartbeat import HeartbeatWriter, owner_of

PARTITIONS = {"a": {"mode": "enforce"}, "b": {"mode": "advise"}, "c": {"mode": "off"}}


def beat(folder: Path, **settings: Any) -> list[str]:
    HeartbeatWriter(folder).write(Config.model_validate(settings), 1_800_000_000)
    return (folder / "heartbeat").read_text().splitlines()


def test_with_another_mode_by_default_only_enforced_partitions_are_named(tmp_path: Path) -> None:
    first, *rest = beat(tmp_path, mode="shadow", partitions=PARTITIONS)

    owner = f"owner {owner_of(tmp_path)}"
    registered = "registered 1800000000"
    assert rest == ["enforce a", "except ", "models ", "accounts ", "qos ", owner, registered]
    word, version, at_epoch_s, _ = first.split()
    assert (word, version) == ("roost", "1")
    assert abs(time.time() - int(at_epoch_s)) < 60


def test_with_enforce_by_default_every_partition_is_meant_but_those_of_another_mode(
    tmp_path: Path,
) -> None:
    _, *rest = beat(tmp_path, mode="enforce", partitions=PARTITIONS)
    assert rest[:2] == ["enforce *", "except b,c"]


def test_the_lease_is_in_whole_seconds_and_models_are_in_lower_case(tmp_path: Path) -> None:
    slurm = {"first_lease_s": 7.6, "model_names": ["A100"]}
    lines = beat(tmp_path, slurm=slurm)
    assert lines[0].split()[-1] == "8"
    assert lines[3] == "models a100"


def test_accounts_and_qos_are_named_in_lower_case(tmp_path: Path) -> None:
    assert beat(tmp_path, accounts=["Vision", "speech"], qos=["high"])[4:6] == [
        "accounts vision,speech",
        "qos high",
    ]


def test_qos_whose_jobs_share_are_named_while_jobs_may_share(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("model,beside,speed\n")
    sharing = {"qos": ["Together"], "pairs": str(pairs)}
    assert "share_qos together" in beat(tmp_path, sharing=sharing | {"enabled": True})
    assert not [line for line in beat(tmp_path, sharing=sharing) if "share_qos" in line]


@pytest.mark.parametrize("accounts", [["no name"], [f"account{n:04}" for n in range(200)]])
def test_accounts_that_cannot_be_named_leave_the_first_lease_to_all(
    tmp_path: Path, accounts: list[str]
) -> None:
    lines = beat(tmp_path, accounts=accounts, qos=["high"])
    assert lines[4:6] == ["accounts ", "qos high"]


def test_the_first_lease_is_no_longer_than_others(tmp_path: Path) -> None:
    lines = beat(tmp_path, slurm={"first_lease_s": 600.0, "lease_s": 60.0})
    assert lines[0].split()[-1] == "60"


def test_a_stopped_daemon_leaves_no_heartbeat_and_may_stop_twice(tmp_path: Path) -> None:
    heartbeat = HeartbeatWriter(tmp_path)
    heartbeat.write(Config(), 0)
    assert (tmp_path / "heartbeat").exists()

    heartbeat.remove()
    heartbeat.remove()

    assert list(tmp_path.iterdir()) == []


def test_a_heartbeat_that_cannot_be_removed_is_logged_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "heartbeat").mkdir()

    with structlog.testing.capture_logs() as logs:
        HeartbeatWriter(tmp_path).remove()

    assert [entry["event"] for entry in logs] == ["heartbeat_not_removed"]


@pytest.mark.parametrize(
    ("folder", "settings"),
    [
        ("missing", {}),
        (".", {"partitions": {f"{number:064}": {"mode": "enforce"} for number in range(99)}}),
    ],
)
def test_a_heartbeat_that_cannot_be_written_is_logged_and_no_more(
    tmp_path: Path, folder: str, settings: dict[str, Any]
) -> None:
    with structlog.testing.capture_logs() as logs:
        HeartbeatWriter(tmp_path / folder).write(Config.model_validate(settings), 0)

    assert [entry["event"] for entry in logs] == ["heartbeat_not_written"]
    assert not (tmp_path / "heartbeat").exists()
