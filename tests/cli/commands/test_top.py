"""`roostctl top`: one frame at three widths, and what becomes of it while roostd is away."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from rich.console import Console
from tests.cli.conftest import Golden, Run

from roost_proto.v1 import operator_pb2 as pb
from roostctl.clients.calls import CallFailed
from roostctl.clients.operator import OperatorClient
from roostctl.commands import top
from roostctl.testing import FakeOperator, build_job


@pytest.fixture
def busy(cluster: FakeOperator) -> FakeOperator:
    """The cluster of the other tests, with a second job that runs and names."""
    cluster.add_job(build_job("4712_7", shares={"gpu1": [3]}, gpu_count=1, link_scores=(0, 0)))
    for job_id, name in (("4711", "train-bert"), ("4712_7", "eval"), ("4713", "train-gpt")):
        cluster.jobs[job_id].name = name
    return cluster


@pytest.mark.parametrize("columns", ["60", "100", "200"])
def test_a_frame_is_as_recorded_and_fits(
    busy: FakeOperator, run: Run, golden: Golden, columns: str
) -> None:
    result = run("top", "--once", COLUMNS=columns)
    assert result.exit_code == 0, result.output
    golden(f"top.{columns}.txt", result.stdout)
    assert max(map(len, result.stdout.splitlines())) <= int(columns)


@pytest.mark.parametrize("columns", range(60, 201, 7))
def test_any_width_shows_every_node_and_job_and_fits(
    busy: FakeOperator, run: Run, columns: int
) -> None:
    text = run("top", "--once", COLUMNS=str(columns)).stdout
    assert max(map(len, text.splitlines())) <= columns
    for name in ("gpu1", "gpu2", "gpu3", "4711", "4712_7", "4713"):
        assert name in text
    for head in ("NODE", "GPUS", "STATE", "PLACE", "REASON"):
        assert head in text


def test_json_is_one_moment(busy: FakeOperator, run: Run) -> None:
    document = json.loads(run("top", "--json").stdout)
    assert document["schema"] == "roost.top/1"
    assert document["status"]["gpu_count"] == 32
    assert [node["name"] for node in document["nodes"]] == ["gpu1", "gpu2", "gpu3"]
    assert document["jobs"][0]["name"] == "train-bert"


def test_an_empty_cluster_says_so(run: Run) -> None:
    text = run("top", "--once").stdout
    for title in ("Nodes: none", "Running: none", "Waiting: none"):
        assert title in text


def test_without_roostd_it_is_an_error_at_the_start(run: Run, operator: FakeOperator) -> None:
    operator.failure = (grpc.StatusCode.UNAVAILABLE, "gone")
    result = run("top", "--once")
    assert (result.exit_code, result.stdout) == (3, "")


def test_a_roostd_that_goes_away_is_named_beside_the_last_moment(
    busy: FakeOperator, address: str
) -> None:
    with OperatorClient(address) as client:
        moment = top._ask(client)
        busy.failure = (grpc.StatusCode.UNAVAILABLE, "gone")
        later = top._ask_again(client, moment)
        assert later.jobs == moment.jobs
        assert later.fault.endswith(": gone")
        busy.failure = (grpc.StatusCode.PERMISSION_DENIED, "no")
        with pytest.raises(CallFailed):
            top._ask_again(client, moment)


def test_a_live_view_draws_again_until_ctrl_c(
    busy: FakeOperator, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        busy.jobs["4713"].state = pb.JOB_STATE_RUNNING
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", pause)
    console = Console(record=True, force_terminal=True, width=100, height=30, markup=False)
    with _client(address) as client, console.capture() as shown:
        top._watch(console, client, top._ask(client), 5.0)
    assert waits == [5.0, 5.0, 5.0]
    text = shown.get()
    assert "Running (2)" in text
    assert "Running (3)" in text


@contextmanager
def _client(address: str) -> Iterator[OperatorClient]:
    with OperatorClient(address) as client:
        yield client


@pytest.mark.parametrize(
    ("wanted", "height", "counts"),
    [
        ([3, 2, 1], None, [3, 2, 1]),
        ([3, 2, 1], 50, [3, 2, 1]),
        ([100, 2, 100], 41, [14, 2, 14]),
        ([100, 0, 5], 31, [15, 0, 5]),
        ([100, 100, 100], 5, [1, 1, 1]),
    ],
)
def test_lines_are_shared_among_the_tables(
    wanted: list[int], height: int | None, counts: list[int]
) -> None:
    assert top._row_counts(wanted, height) == counts
