"""`roost-sim profiles --links`: bandwidths of a cluster's nodes, constants, and the check."""

import json
from pathlib import Path

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


def test_sizes_of_which_not_all_sets_were_computed_are_marked(tmp_path: Path) -> None:
    count = 10
    heads = "\t".join(f"GPU{number}" for number in range(count))
    rows = [
        "\t".join(
            "X" if a == b else "NODE" if (a + b) % 3 else f"NV{1 + (a * b) % 2}"
            for b in range(count)
        )
        for a in range(count)
    ]
    lines = [f"GPU{number}\t{row}" for number, row in enumerate(rows)]
    (tmp_path / "topo.txt").write_text("\n".join([f"\t{heads}", *lines, ""]))
    path = tmp_path / "ten.yaml"
    path.write_text(
        "tiers:\n"
        "  node: {gbytes_per_s: 100}\n  rack: {gbytes_per_s: 10}\n  pod: {gbytes_per_s: 10}\n"
        "node_kinds:\n  ten: {topology_file: topo.txt, gpu_model: v100}\n"
        "racks:\n  r1: {nodes: {ten: 1}}\n"
    )
    found = json.loads(run("--cluster", str(path), "--json"))["sets"]
    assert [row["gpus"] for row in found] == list(range(2, 11))
    assert all(row["is_exact"] for row in found if row["gpus"] in (2, 9, 10))  # 45 sets at most
    assert not all(row["is_exact"] for row in found)
    text = run("--cluster", str(path))
    assert "~ of the more than 100 sets of this size, the 16 most promising were computed" in text
    assert sum("~ " in line for line in text.splitlines()) == 1 + sum(
        not row["is_exact"] for row in found
    )
