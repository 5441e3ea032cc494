"""`roostctl interference`: two tables, JSON, faults, nothing learned, and an older daemon."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner, Result
from tests.cli.conftest import Golden, Run
from tests.cli.test_json_documents import misfits

from roost_proto.v1 import interference_pb2 as pb
from roost_proto.v1.interference_pb2_grpc import (
    InterferenceServicer,
    add_InterferenceServicer_to_server,
)
from roostctl.documents.interference import InterferenceDocument
from roostctl.main import cli

ANN, BOB = 4_000_000_123, 4_000_000_124  # no login names


class FakeInterference(InterferenceServicer):
    """Answers what it was given, and records how many lines it was asked for."""

    def __init__(self) -> None:
        self.answer, self.counts = pb.GetInterferenceResponse(), list[int]()

    def GetInterference(
        self, request: pb.GetInterferenceRequest, context: grpc.ServicerContext
    ) -> pb.GetInterferenceResponse:
        self.counts.append(request.count)
        return self.answer


@pytest.fixture
def daemon() -> FakeInterference:
    """A bad pair, a good placement, and one kind; the model decides."""
    fake = FakeInterference()
    fake.answer = pb.GetInterferenceResponse(
        model="onnx:0123456789ab",
        decides=True,
        correcting_count=1,
        row_count=3,
        kind_count=1,
        rows=[
            pb.InterferenceRow(
                user_id=ANN,
                job_name="lm",
                beside_user_id=BOB,
                beside_job_name="evil\x1b[2J",
                level="switch",
                residual=0.31,
                error=0.08,
                report_count=12.0,
                predicted=0.05,
                observed=0.45,
            ),
            pb.InterferenceRow(
                user_id=ANN,
                job_name="lm",
                level="rack",
                residual=-0.02,
                error=0.11,
                report_count=3.0,
            ),
            pb.InterferenceRow(
                user_id=BOB,
                job_name="vgg",
                level="node",
                residual=0.01,
                error=0.21,
                report_count=31.0,
                from_activity=True,
            ),
        ],
        shared_pairs=[
            pb.SharedPair(
                user_id=ANN,
                model="bert",
                beside="ncf",
                measured=0.051,
                corrected=0.357,
                run_count=3,
                is_bad=True,
            ),
        ],
        kinds=[
            pb.InterferenceKind(
                user_id=ANN, job_name="lm", residual=0.1, error=0.05, report_count=15
            )
        ],
    )
    return fake


@pytest.fixture
def ask(daemon: FakeInterference, socket_path: Path) -> Iterator[Run]:
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    add_InterferenceServicer_to_server(daemon, server)
    address = f"unix:{socket_path}"
    server.add_insecure_port(address)
    server.start()

    def invoke(*args: str, **env: str) -> Result:
        arguments = ["--daemon", address, "interference", *args]
        return CliRunner().invoke(cli, arguments, env={"COLUMNS": "", **env})

    yield invoke
    server.stop(grace=None).wait()


def test_prints_as_recorded(ask: Run, golden: Golden) -> None:
    golden("interference.txt", ask().stdout)
    golden("interference.narrow.txt", ask(COLUMNS="60").stdout)
    golden("interference.json", ask("--json").stdout)


def test_so_many_lines_are_asked_for(ask: Run, daemon: FakeInterference) -> None:
    ask("--last", "3")
    ask()
    assert daemon.counts == [3, 20]


def test_the_document_has_its_shape(ask: Run) -> None:
    assert misfits(json.loads(ask("--json").stdout), InterferenceDocument) == []


def test_a_model_that_does_not_decide_and_a_fault_are_said(
    ask: Run, daemon: FakeInterference
) -> None:
    daemon.answer.decides, daemon.answer.fault = False, "interference.json: damaged"
    text = ask(COLUMNS="200").stdout
    assert "decides nothing (policy.model)" in text
    assert "Fault: interference.json: damaged." in text


@pytest.mark.parametrize("number", [-1e6, -1e308, float("-inf"), 1e308])
def test_a_prediction_that_cannot_be_is_printed(
    ask: Run, daemon: FakeInterference, number: float
) -> None:
    daemon.answer.rows[0].predicted = daemon.answer.shared_pairs[0].measured = number
    for options in ((), ("--json",)):
        assert ask(*options).exit_code == 0
    assert ("-100%" if number < 0 else " 100% ") in ask().stdout


def test_names_that_a_terminal_would_obey_are_escaped(ask: Run, daemon: FakeInterference) -> None:
    daemon.answer.rows[0].job_name = "[bold]\x1b[2J\u202e"
    daemon.answer.shared_pairs[0].beside = "\n\x00;rm"
    text = ask().stdout
    assert "[bold]\\x1b[2J\\u202e" in text
    assert "\\n\\x00;rm" in text
    assert json.loads(ask("--json").stdout)["rows"][0]["job_name"] == "[bold]\x1b[2J\u202e"


def test_nothing_learned_is_said(ask: Run, daemon: FakeInterference) -> None:
    daemon.answer = pb.GetInterferenceResponse()
    told = "No job has reported its progress yet; docs/interference.md shows how jobs do so."
    assert ask(COLUMNS="200").stdout == f"{told}\n"


def test_lines_that_are_left_out_are_said(ask: Run, daemon: FakeInterference) -> None:
    assert "Shown" not in ask(COLUMNS="200").stdout
    daemon.answer.row_count = 31
    told = "31 rows of 1 kind learned. Shown: 3 rows and 1 kind (--last)."
    assert told in ask(COLUMNS="200").stdout


def test_an_older_daemon_is_told_so(run: Run) -> None:
    result = run("interference")
    assert result.exit_code == 6
    assert "older than this roostctl" in result.stderr


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_counts_that_cannot_be_are_refused(ask: Run, count: str) -> None:
    assert ask("--last", count).exit_code == 2
