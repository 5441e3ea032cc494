"""`roost-sim profiles --links`: bandwidths of a cluster's nodes, constants, and the check."""

import json

import pytest
from click.testing import CliRunner

from roost_sim.cli import cli


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["profiles", "--links", *arguments])
    assert result.exit_code == 0
    return result.stdout


def test_every_size_of_every_node_kind_has_its_best_and_worst_set() -> None:
    found = json.loads(run("--cluster", "small", "--json"))
    assert [row["gpus"] for row in found["sets"]] == list(range(2, 9))
    pair = found["sets"][0]
    assert pair["generation"] == "ampere"
    assert pair["best_bytes_per_s"] == pytest.approx(80e9)  # four lanes
    assert pair["worst_bytes_per_s"] == pytest.approx(16e9)  # the other socket
    assert pair["worst_stretch"] == pytest.approx(5.0)
    assert {"generation", "pcie_bytes_per_s", "source"} < set(found["generations"][0])
    assert sum(check["is_met"] for check in found["checks"]) > 20


def test_people_get_three_tables() -> None:
    text = run("--cluster", "dgx-pod")
    assert "dgx-pod: all-reduce inside a node" in text
    assert "DGX-H100" in text
    assert "One link, GB/s in one direction" in text
    assert "Published measurements: 23 of 28 within 20%" in text
    assert "* not met" in text
