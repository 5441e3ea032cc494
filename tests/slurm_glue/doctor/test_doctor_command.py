"""`roost-slurm doctor` as a command, on whatever machine the tests run."""

import json

import pytest

from roost_slurm import cli
from roost_slurm.doctor import doctor_command


def test_json_names_every_finding(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["doctor", "--role", "controller", "--role", "node", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert document["roles"] == ["controller", "node"]
    checks = {row["check"] for row in document["findings"]}
    assert {"slurm", "munge", "roostd", "gres", "probe"} <= checks
    problems = [row for row in document["findings"] if row["level"] == "problem"]
    assert code == (doctor_command.SICK if problems else 0)
    assert all(row["cure"] for row in problems)


def test_text_has_a_line_for_each_finding(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["doctor", "--role", "node"])
    lines = capsys.readouterr().out.splitlines()
    assert all(line.split()[0] in ("fine", "advice", "problem") for line in lines)
