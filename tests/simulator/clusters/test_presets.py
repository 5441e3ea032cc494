"""Presets against the page and the sources of their numbers."""

import re
from pathlib import Path

import pytest
from tests.simulator.clusters.page import PAGE

from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.clusters.presets import PRESET_NAMES, preset


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_preset_is_what_its_row_in_the_page_says(name: str) -> None:
    cluster = preset(name)
    (row,) = re.findall(rf"^\| `{name}` \| ([^|]*) \| (\d+) \|", PAGE, re.MULTILINE)
    kinds = [tuple(map(int, part.split(" × "))) for part in row[0].split(" and ")]
    counts = [node.kind.gpu_count for node in cluster.nodes]
    assert [(counts.count(gpus), gpus) for _, gpus in kinds] == kinds
    assert sum(nodes for nodes, _ in kinds) == len(cluster.nodes)
    assert len({node.rack for node in cluster.nodes}) == int(row[1])
    assert cluster is load_cluster(name)
    assert [node.name for node in cluster.nodes] == sorted(node.name for node in cluster.nodes)


def test_papers_cluster_sizes() -> None:
    sizes = {"dally-128": 128, "dally-256": 256, "topdrl": 32, "venus": 1_064, "dgx-pod": 1_024}
    assert {name: preset(name).gpu_count for name in sizes} == sizes


@pytest.mark.data
def test_philly_preset_has_the_machines_of_the_list(data_folder: Path) -> None:
    lines = (data_folder / "cluster" / "philly_machines.csv").read_text().split()[1:]
    listed = [int(line.split(",")[1]) for line in lines]
    counts = [node.kind.gpu_count for node in preset("philly").nodes]
    assert [counts.count(size) for size in (4, 8)] == [listed.count(size) for size in (4, 8)]
