"""`roostctl audit`: it shows the changes, and finds a record that was changed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.test_json_documents import misfits

from roostctl.documents.audit import AuditCheckDocument, AuditDocument
from roostctl.main import cli
from roostd.ops.audit import FILE_NAME, HEAD_NAME, append


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["audit", *args], env={"COLUMNS": ""})


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of three changes, as roostd writes it."""
    append(tmp_path, "pin_timer", "ann", timer="8/high", pinned_s=300.0, uid=1000, user="ann")
    append(tmp_path, "promote_policy", "bob", policy="order:las", uid=0, user="root")
    append(tmp_path, "unpin_timer", "eve", timer="8/high", pinned_s=None, uid=1001, user=None)
    return tmp_path / FILE_NAME


def test_shows_who_changed_what(log: Path) -> None:
    done = run("show", "--file", str(log))
    assert done.exit_code == 0
    head, first, *_, last = done.output.splitlines()
    assert head.split() == ["TIME", "UID", "USER", "BY", "ACTION", "WHAT"]
    assert first.split()[1:] == [
        "1000",
        "ann",
        "ann",
        "pin_timer",
        "timer=8/high,",
        "pinned_s=300.0",
    ]
    assert last.split()[1:] == ["1001", "-", "eve", "unpin_timer", "timer=8/high"]


def test_the_last_ones_as_json(log: Path) -> None:
    document = json.loads(run("show", "--file", str(log), "--last", "2", "--json").output)
    assert list(document) == list(AuditDocument.__annotations__)
    assert [change["by"] for change in document["changes"]] == ["bob", "eve"]


def test_a_forged_line_cannot_move_the_cursor(log: Path) -> None:
    with log.open("a") as file:
        file.write('{"at": "\\u001b[2J", "by": "x"}\n\x1b[31mnonsense\n')
    done = run("show", "--file", str(log))
    assert "\x1b" not in done.output
    assert "damaged=" in done.output


def test_a_whole_log_is_whole(log: Path) -> None:
    done = run("verify", str(log))
    assert (done.exit_code, done.output) == (0, "The chain of 3 lines is whole.\n")


def test_a_changed_line_is_named(log: Path) -> None:
    log.write_text(log.read_text().replace("order:las", "order:lus"))
    done = run("verify", str(log))
    assert done.exit_code == 1
    assert done.output.splitlines() == [f"{log}:2: was changed", "The chain of 3 lines is broken."]


def test_lines_missing_at_the_end_are_noticed_by_the_head(log: Path) -> None:
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:1]))
    done = run("verify", str(log), "--json")
    document = json.loads(done.output)
    assert misfits(document, AuditCheckDocument) == []
    assert (done.exit_code, document["is_whole"]) == (1, False)
    assert "lines are missing" in document["breaks"][0]["problem"]


def test_a_crash_before_the_head_was_written_is_no_break(log: Path) -> None:
    lines = log.read_text().splitlines()
    log.with_name(HEAD_NAME).write_text(json.loads(lines[-2])["chain"] + "\n")
    done = run("verify", str(log))
    assert done.exit_code == 0
    assert "one line behind" in done.output


def test_a_rotated_log_is_checked_across_its_parts(log: Path) -> None:
    older = log.with_name("audit.log.1")
    log.rename(older)
    append(log.parent, "pin_timer", "ann")
    assert run("verify", str(older), str(log)).output == "The chain of 4 lines is whole.\n"
    assert "an earlier part, which was not named" in run("verify", str(log)).output
    assert run("verify", str(log), str(older)).exit_code == 1


@pytest.mark.parametrize("command", ["show --file", "verify"])
def test_a_missing_log_is_named_with_a_cure(tmp_path: Path, command: str) -> None:
    done = run(*command.split(), str(tmp_path / "none.log"))
    assert done.exit_code == 1
    assert "No such file" in done.stderr
    assert "paths.state_dir" in done.stderr
