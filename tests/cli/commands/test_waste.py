"""`roostctl waste`: a table by day and user, sums by user, JSON, and an older daemon."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner, Result
from tests.cli.conftest import Run
from tests.cli.test_json_documents import misfits

from roost_proto.v1 import waste_pb2 as pb
from roost_proto.v1.waste_pb2_grpc import WasteServicer, add_WasteServicer_to_server
from roostctl.documents.waste import WasteDocument
from roostctl.main import cli

NOBODY = 4_000_000_123  # no login name


class FakeWaste(WasteServicer):
    """Answers what it was given, and records how many days it was asked for."""

    def __init__(self) -> None:
        self.answer = pb.GetWasteResponse(counted_s=3_600.0)
        self.day_counts = list[int]()

    def GetWaste(
        self, request: pb.GetWasteRequest, context: grpc.ServicerContext
    ) -> pb.GetWasteResponse:
        self.day_counts.append(request.day_count)
        return self.answer


@pytest.fixture
def daemon() -> FakeWaste:
    """Two days of one user, and GPUs of no user."""
    fake = FakeWaste()
    fake.answer.entries.extend(
        [
            pb.WasteEntry(day="2026-11-23", user_id=NOBODY, held_gpu_h=150.0, idle_gpu_h=30.0),
            pb.WasteEntry(
                day="2026-11-23", unreachable_gpu_h=4.0, half_free_gpu_h=0.5, foreign_gpu_h=2.0
            ),
            pb.WasteEntry(
                day="2026-11-22",
                user_id=NOBODY,
                held_gpu_h=50.0,
                split_gpu_h=2.0,
                neighbours_gpu_h=1.5,
            ),
        ]
    )
    return fake


@pytest.fixture
def ask(daemon: FakeWaste, socket_path: Path) -> Iterator[Run]:
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    add_WasteServicer_to_server(daemon, server)
    address = f"unix:{socket_path}"
    server.add_insecure_port(address)
    server.start()

    def invoke(*args: str, **env: str) -> Result:
        arguments = ["--daemon", address, "waste", *args]
        return CliRunner().invoke(cli, arguments, env={"COLUMNS": "", **env})

    yield invoke
    server.stop(grace=None).wait()


def test_each_day_and_user_is_a_line(ask: Run, daemon: FakeWaste) -> None:
    lines = [line.split() for line in ask("--days", "3").stdout.splitlines()]
    assert lines[0] == [
        "DAY",
        "USER",
        "HELD",
        "IDLE",
        "SPLIT",
        "NEIGHBOURS",
        "UNKNOWN",
        "UNREACHABLE",
        "HALF",
        "FREE",
        "FOREIGN",
    ]
    assert lines[1] == ["2026-11-23", str(NOBODY), "150", "30.0", "-", "-", "-", "-", "-", "-"]
    assert lines[2] == ["2026-11-23", "(none)", "-", "-", "-", "-", "-", "4.0", "0.5", "2.0"]
    assert daemon.day_counts == [3]


def test_the_share_of_idle_hours_is_told(ask: Run) -> None:
    text = ask().stdout
    assert "GPU-hours, counted for 1 h" in text
    assert "15% of 200 held GPU-hours were idle." in text


def test_a_few_minutes_are_not_shown_as_none(ask: Run, daemon: FakeWaste) -> None:
    del daemon.answer.entries[1:]
    daemon.answer.entries[0].held_gpu_h = daemon.answer.entries[0].idle_gpu_h = 0.02
    lines = ask().stdout.splitlines()
    assert lines[1].split()[2:5] == ["<0.1", "<0.1", "-"]
    assert "100% of <0.1 held GPU-hours were idle." in lines[2]


def test_hours_without_telemetry_are_not_told_as_busy_ones(ask: Run, daemon: FakeWaste) -> None:
    for entry in daemon.answer.entries:
        entry.idle_gpu_h, entry.unknown_gpu_h = 0.0, entry.held_gpu_h
    text = ask().stdout
    assert "0% of 200 held GPU-hours were idle; for 100% there was no telemetry." in text


def test_days_are_added_up_for_each_user(ask: Run) -> None:
    document = json.loads(ask("--by", "user", "--json").stdout)
    assert [entry["user_id"] for entry in document["entries"]] == [NOBODY, None]
    assert document["entries"][0]["day"] == "2026-11-22 to 2026-11-23"
    assert document["entries"][0]["held_gpu_h"] == 200.0
    assert document["entries"][0]["split_gpu_h"] == 2.0


def test_the_document_has_its_shape(ask: Run) -> None:
    assert misfits(json.loads(ask("--json").stdout), WasteDocument) == []


def test_memory_of_no_job_is_listed_by_gpu(ask: Run, daemon: FakeWaste) -> None:
    assert "PROCESS OF" not in ask().stdout
    daemon.answer.foreign.add(node="n1", gpu_index=3, used_bytes=3 << 30, seen_for_s=600.0)
    daemon.answer.foreign.add(
        node="n2",
        gpu_index=0,
        used_bytes=40 << 30,
        held_by="12",
        user_id=NOBODY,
        slurm_job_id=9,
        seen_for_s=7_200.0,
    )
    for by in ("day", "user"):
        lines = [line.split() for line in ask("--by", by).stdout.splitlines()]
        assert ["n1", "3", "3.0", "-", "-", "-", "10", "m", "00", "s"] in lines
        assert ["n2", "0", "40", "12", str(NOBODY), "9", "2", "h", "00", "m"] in lines
    document = json.loads(ask("--json").stdout)
    assert misfits(document, WasteDocument) == []
    assert [one["held_by"] for one in document["foreign"]] == [None, "12"]


def test_nothing_yet_and_a_fault(ask: Run, daemon: FakeWaste) -> None:
    del daemon.answer.entries[:]
    daemon.answer.fault = "waste.json: damaged"
    text = ask("--by", "user").stdout
    assert "HELD" not in text
    assert "No GPU-hours yet, counted for 1 h" in text
    assert "waste.json: damaged" in text


def test_an_older_daemon_is_told_so(run: Run) -> None:
    result = run("waste")
    assert result.exit_code == 6
    assert "older than this roostctl" in result.stderr


@pytest.mark.parametrize("days", ["0", "-1", "many"])
def test_days_that_cannot_be_are_refused(ask: Run, days: str) -> None:
    assert ask("--days", days).exit_code == 2
