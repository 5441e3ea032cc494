"""Link shapes against matrices of real machines."""

from pathlib import Path

import pytest

from roost_engine.domain.topology import parse_topo_matrix
from roost_sim.clusters.link_shapes import SHAPES


@pytest.mark.data
@pytest.mark.parametrize(
    ("shape", "file"),
    [
        ("cube8", "v100_sxm2_8gpu_1nic_hybrid_cube_mesh.txt"),
        ("a100x8", "a100_sxm4_8gpu_aws_p4d.txt"),
        ("h100x8", "h100_sxm5_8gpu_nvswitch_stas.txt"),
        ("a100x4", "a100_sxm4_4gpu_polaris.txt"),
    ],
)
def test_shapes_are_those_of_real_machines(data_folder: Path, shape: str, file: str) -> None:
    path = data_folder / "topology" / "nvidia_smi_topo" / file
    real = parse_topo_matrix(path.read_text(), file)
    lanes = [
        [[link.nvlink_count if link else None for link in row] for row in matrix.links]
        for matrix in (SHAPES[shape], real)
    ]
    assert lanes[0] == lanes[1]
