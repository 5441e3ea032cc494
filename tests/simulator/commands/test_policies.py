"""`roost-sim policies`: the list, for programs and for people."""

import json

from click.testing import CliRunner
from tests.simulator.program import run

from roost_sim.catalogue.compositions import POLICIES
from roost_sim.cli import cli


def test_policies_as_json() -> None:
    listed = json.loads(run("policies", "--json").stdout)
    keys = ["name", "order", "placement", "gate", "preemption", "regime", "source"]
    assert all(list(row) == keys for row in listed)
    assert {"fifo", "sjf"} <= {row["name"] for row in listed}
    assert all(value for row in listed for value in row.values())


def test_the_text_output_names_every_part() -> None:
    shown = run("policies").stdout
    for word in ("smallest-first", "consolidation", "strict", "block", "oracle", "none"):
        assert word in shown


def test_the_list_of_policies_fits_120_columns() -> None:
    lines = CliRunner().invoke(cli, ["policies"]).stdout.splitlines()
    assert lines[0].split() == ["name", "order", "placement", "gate", "preemption", "regime"]
    assert max(map(len, lines)) <= 120
    assert {line.split()[0] for line in lines if line and line[0] != " "} >= set(POLICIES)
