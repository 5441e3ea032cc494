"""Tables that fit the terminal, colour, encodings, and text of other users."""

import io
import os
import pty
import subprocess
import sys

import grpc
import pytest
from rich.console import Console, RenderableType
from rich.text import Text
from tests.cli.conftest import Run

from roost_proto.v1 import operator_pb2 as pb
from roostctl.output.console import listing, print_document, show
from roostctl.testing import FakeOperator, build_candidate, build_job, build_node

PROGRAM = [sys.executable, "-c", "from roostctl.main import main; main()"]
# Clear the screen, ring, go back over the line, reverse the text, fake a new line, mark up.
HOSTILE = "\x1b[2J\x07\rfine\u202e\nJOB 1 \x9b31m [red]bold[/red] :smile:"


def every_command(run: Run) -> list[str]:
    commands = [
        ["nodes"],
        ["node", "n1"],
        ["jobs"],
        ["job", "1"],
        ["explain", "1", "--features"],
        ["status"],
    ]
    return [run(*command).stdout for command in commands]


def test_control_characters_from_jobs_and_nodes_are_escaped(
    operator: FakeOperator, run: Run
) -> None:
    operator.add_node(build_node("n1", faults={0: HOSTILE}, problems=[HOSTILE]))
    candidate = build_candidate([HOSTILE], [0], 1.0, 0, HOSTILE)
    candidate.features[HOSTILE] = 1.0
    failed = pb.SlotPolicy(slot=HOSTILE, policy=HOSTILE, fault_count=1, last_fault=HOSTILE)
    operator.add_job(
        build_job("1", pb.JOB_STATE_WAITING, shares={HOSTILE: [0]}, reason=HOSTILE),
        pb.Explanation(
            policy=HOSTILE,
            fallback_reason=HOSTILE,
            candidates=[candidate],
            exclusions=[pb.Exclusion(reason=HOSTILE, node_count=1)],
            slots=[failed],
        ),
    )
    operator.status.cluster = HOSTILE
    operator.status.slots.append(failed)
    for text in every_command(run):
        # No hostile byte survives, and the only line breaks are ours.
        assert not set("\x1b\x07\r\u202e\x9b") & set(text)
        assert "\nJOB 1 " not in text
        assert "[red]bold[/red] :smile:" in text


def test_error_messages_are_escaped_too(operator: FakeOperator, run: Run) -> None:
    operator.failure = (grpc.StatusCode.NOT_FOUND, "no job \x1b[2J'1'")
    assert run("job", "1").stderr == "roostctl: no job \\x1b[2J'1'\n"


def test_json_is_plain_ascii(operator: FakeOperator, run: Run) -> None:
    operator.add_job(build_job("1", reason=f"Zürich {HOSTILE}"))
    assert run("jobs", "--json").stdout.isascii()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_prints_in_any_encoding(encoding: str, operator: FakeOperator, address: str) -> None:
    operator.add_job(build_job("1", reason="warten auf Zürich \N{SNOWMAN}"))
    done = subprocess.run(
        [*PROGRAM, "--daemon", address, "job", "1"],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    expected = "warten auf Zürich \N{SNOWMAN}".encode(encoding, "backslashreplace")
    assert expected in done.stdout


def through_terminal(address: str, *args: str, **env: str) -> bytes:
    """Run the program with a pseudo-terminal as its stdout; returns what it wrote there."""
    ours, theirs = pty.openpty()
    clean = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    with os.fdopen(ours, "rb", buffering=0) as reader:
        done = subprocess.Popen(
            [*PROGRAM, "--daemon", address, *args],
            stdout=theirs,
            stderr=subprocess.PIPE,
            env={**clean, "TERM": "xterm-256color", **env},
        )
        os.close(theirs)
        written = b""
        try:
            while chunk := reader.read(4096):
                written += chunk
        except OSError:  # Linux says EIO when the other side has closed
            pass
        _, errors = done.communicate(timeout=60)
    assert done.returncode == 0, errors
    return written


def test_colours_on_a_terminal_only(cluster: FakeOperator, address: str, run: Run) -> None:
    assert b"\x1b[" in through_terminal(address, "jobs")
    assert "\x1b[" not in run("jobs").stdout


def test_no_colour_where_no_color_is_set(cluster: FakeOperator, address: str) -> None:
    assert b"\x1b[3" not in through_terminal(address, "jobs", NO_COLOR="1")


def test_json_has_no_colour_on_a_terminal(cluster: FakeOperator, address: str) -> None:
    assert b"\x1b[" not in through_terminal(address, "jobs", "--json")


def printed(parts: RenderableType, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    show(console, parts)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


ROWS = [("n1", "first reason"), ("node2", "second")]


def test_a_table_has_a_line_a_row_where_it_fits() -> None:
    table = listing(Console(width=80), ("NODE", "REASON"), ROWS)
    assert printed(table, 80) == ["NODE   REASON", "n1     first reason", "node2  second"]


def test_a_table_that_cannot_fit_becomes_a_block_a_row() -> None:
    # Five columns for the name, two between, twelve for the longest reason.
    assert printed(listing(Console(width=19), ("NODE", "REASON"), ROWS), 19)[0] == "NODE   REASON"
    assert printed(listing(Console(width=18), ("NODE", "REASON"), ROWS), 18) == [
        "NODE    n1",
        "REASON  first",
        "        reason",
        "",
        "NODE    node2",
        "REASON  second",
    ]


def test_wide_characters_count_as_two_columns() -> None:
    rows = [("東京", "x")]
    assert printed(listing(Console(width=7), ("N", "R"), rows), 7)[0].split() == ["N", "R"]
    assert printed(listing(Console(width=6), ("N", "R"), rows), 6) == ["N  東", "   京", "R  x"]


def test_json_refuses_a_number_that_json_lacks() -> None:
    with pytest.raises(ValueError, match="JSON"):
        print_document({"value": float("nan")})


@pytest.mark.parametrize("width", [60, 30])
def test_a_long_table_looks_like_a_short_one(width: int) -> None:
    heads, console = ("JOB", "STATE", "REASON"), Console(width=width)
    rows = [
        (str(number), Text("waiting", "yellow"), ("no GPUs are free " * number).strip() or "東京")
        for number in range(9)
    ]
    short = printed(listing(console, heads, rows), width)
    long = printed(listing(console, heads, rows * 20), width)

    assert long[: len(short)] == short
    assert len(long) == 20 * (len(short) - 1) + 1


def test_a_long_table_has_the_styles_of_a_short_one() -> None:
    rows = [("1", Text("waiting", "yellow"), "no")] * 120
    file = io.StringIO()
    console = Console(
        file=file,
        force_terminal=True,
        width=60,
        color_system="standard",
        _environ={"TERM": "xterm"},
    )
    console.print(listing(console, ("JOB", "STATE", "REASON"), rows))
    shown = file.getvalue()
    assert shown.count("\x1b[33mwaiting\x1b[0m") == 120
    assert "\x1b[1mSTATE\x1b[0m" in shown
