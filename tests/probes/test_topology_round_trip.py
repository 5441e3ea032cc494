"""Matrix in, fake driver, real binding, probe, matrix out: the same symbols."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.probes.conftest import FakeNode, FakeNodeFactory

from roost_probe.testing.description import NodeDescription, load_topology
from roost_probe.testing.matrix import TopoText, read_topo_text, sample_names

pytestmark = pytest.mark.nvml

DATA = Path(os.environ.get("ROOST_DATA_DIR", Path(__file__).parents[2] / "../shared/data"))
PUBLIC_MATRICES = sorted((DATA / "topology/nvidia_smi_topo").glob("*.txt"))


def print_topology(node: FakeNode) -> TopoText:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "roost_probe.cli",
            "--print-topology",
            "--sysfs-root",
            str(node.sysfs),
        ],
        env={**os.environ, **node.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return read_topo_text(done.stdout, "roost-probe --print-topology")


def symbols(topology: TopoText) -> list[list[str | None]]:
    return [[link.symbol if link else None for link in row] for row in topology.links.links]


@pytest.mark.parametrize("name", sample_names())
def test_every_sample_comes_back(name: str, fake_node: FakeNodeFactory) -> None:
    expected, seen = load_topology(name), print_topology(fake_node(name))

    assert symbols(seen) == symbols(expected)
    assert seen.nic_levels == expected.nic_levels
    assert seen.nic_nic_levels == expected.nic_nic_levels
    assert seen.cpu_affinities == expected.cpu_affinities
    assert seen.numa_nodes == expected.numa_nodes


@pytest.mark.data
@pytest.mark.skipif(not PUBLIC_MATRICES, reason=f"no public matrices below {DATA}")
@pytest.mark.parametrize("path", PUBLIC_MATRICES, ids=lambda path: path.stem)
def test_every_public_matrix_comes_back(path: Path, fake_node: FakeNodeFactory) -> None:
    expected = load_topology(str(path))
    seen = print_topology(fake_node(NodeDescription(topology=expected)))

    assert symbols(seen) == symbols(expected)
    assert seen.nic_levels == expected.nic_levels
