"""topology: link matrices, and parsing them from text."""

import json
from pathlib import Path

import pytest

from roost_engine.domain.errors import TopologyError
from roost_engine.domain.topology import Level, Link, LinkMatrix, parse_topo_matrix

PAIR = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV4\t0-15\t0
GPU1\tNV4\t X \t0-15\t0
"""

WITH_NIC = """\

        GPU0    GPU1    mlx5_0  CPU Affinity
GPU0     X      NODE    PIX     0-15
GPU1    NODE     X      SYS     16-31
mlx5_0  PIX     SYS      X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes

NIC Legend:

  NIC0: mlx5_0
"""


def test_reads_tabs_and_lane_counts() -> None:
    matrix = parse_topo_matrix(PAIR)
    assert matrix.links[0][1] == matrix.links[1][0] == Link(Level.NUMA_NODE, 4)
    assert matrix.links[0][0] is None


def test_reads_spaces_and_ignores_nics_and_legend() -> None:
    matrix = parse_topo_matrix(WITH_NIC)
    assert matrix.gpu_count == 2
    assert matrix.links[0][1] == Link(Level.NUMA_NODE)


def test_reads_terminal_colours() -> None:
    coloured = PAIR.replace("\tGPU0\tGPU1", "\x1b[4m\tGPU0\tGPU1").replace("CPU", "\x1b[0mCPU")
    assert parse_topo_matrix(coloured) == parse_topo_matrix(PAIR)


def test_reads_nic_columns_before_the_gpu_columns() -> None:
    text = "\tmlx5_0\tGPU0\tGPU1\nmlx5_0\t X \tPIX\tSYS\nGPU0\tPIX\t X \tPHB\nGPU1\tSYS\tPHB\t X\n"
    assert parse_topo_matrix(text).links[0][1] == Link(Level.HOST_BRIDGE)


def test_nvlink_across_sockets_has_level_system() -> None:
    across = PAIR.replace("GPU1\tNV4\t X \t0-15\t0", "GPU1\tNV4\t X \t16-31\t1")
    assert parse_topo_matrix(across).links[0][1] == Link(Level.SYSTEM, 4)


def test_nvlink_without_affinity_has_level_system() -> None:
    bare = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X\n"
    assert parse_topo_matrix(bare).links[0][1] == Link(Level.SYSTEM, 4)


@pytest.mark.parametrize(
    ("symbol", "level"),
    [
        ("PIX", Level.SINGLE_SWITCH),
        ("PXB", Level.MULTIPLE_SWITCHES),
        ("PHB", Level.HOST_BRIDGE),
        ("NODE", Level.NUMA_NODE),
        ("SYS", Level.SYSTEM),
        ("SOC", Level.SYSTEM),
    ],
)
def test_reads_every_level(symbol: str, level: Level) -> None:
    assert parse_topo_matrix(PAIR.replace("NV4", symbol)).links[0][1] == Link(level)


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, "empty"),
        ("\n \n", 1, "empty"),
        ("\n\nslurmctld is up\n", 3, "no GPU columns"),
        ("\tmlx5_0\nmlx5_0\t X\n", 1, "no GPU columns"),
        ("\tGPU0\tGPU1\nGPU0\t X \tPIX\n", 2, "no row for GPU1"),
        (PAIR + "GPU2\tSYS\tSYS\n", 4, "GPU2 has a row but no column"),
        (PAIR.replace("GPU1\tNV4", "gpu1\tNV4"), 3, "'gpu1' is no device of the header"),
        (PAIR + "GPU1\tNV4\t X \n", 4, "GPU1 has a second row"),
        ("\tGPU0\tGPU1\nGPU0\t X \nGPU1\tPIX\t X \n", 2, "GPU0 has 1 entries, want 2"),
        (PAIR.replace("GPU1\tNV4\t X ", "GPU1\t X \tNV4"), 3, "GPU1 to GPU0 reads 'X'"),
        (PAIR.replace("GPU0\t X \tNV4", "GPU0\tNV4\tNV4"), 2, "GPU0 to GPU0 reads 'NV4'"),
        (PAIR.replace("GPU1\tNV4", "GPU1\tNV6"), 3, "GPU1 to GPU0 reads 'NV6' but GPU0 to GPU1"),
        (PAIR.replace("GPU1\tNV4", "GPU1\tABC"), 3, "unknown link 'ABC'"),
        (PAIR.replace("NV4", "NV0"), 2, "unknown link 'NV0'; known are X, NV1..NV99, PIX"),
        (PAIR.replace("NV4", "NVLINK"), 2, "unknown link 'NVLINK'"),
    ],
)
def test_refuses_a_text_without_a_valid_matrix_and_names_the_line(
    text: str, line: int, problem: str
) -> None:
    with pytest.raises(TopologyError) as caught:
        parse_topo_matrix(text, "node7.txt")
    assert (caught.value.source, caught.value.line) == ("node7.txt", line)
    assert caught.value.problem.startswith(problem)
    assert str(caught.value).startswith(f"node7.txt:{line}: {problem}")


def test_blank_lines_count_in_line_numbers() -> None:
    with pytest.raises(TopologyError) as caught:
        parse_topo_matrix("\n\n" + PAIR.replace("NV4", "XXX"))
    assert caught.value.line == 4


@pytest.mark.parametrize(
    ("links", "problem"),
    [
        (((None, Link(Level.SYSTEM)),), "row 0 has 2 entries"),
        (((Link(Level.SYSTEM),),), "the diagonal"),
        (((None, None), (None, None)), "the diagonal"),
        (((None, Link(Level.SYSTEM)), (Link(Level.SYSTEM, 1), None)), "differs"),
    ],
)
def test_a_matrix_is_square_symmetric_and_empty_on_the_diagonal(
    links: tuple[tuple[Link | None, ...], ...], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        LinkMatrix(links)


def test_score_sums_each_pair_once() -> None:
    links = LinkMatrix.uniform(4, Link(Level.NUMA_NODE, 2))
    assert links.score((0, 1, 3)) == 3 * 200
    assert links.score((1, 1)) == links.score(()) == 0


def test_nearer_links_score_higher() -> None:
    nearest_first = [Link(level) for level in Level]
    scores = [link.score for link in nearest_first]
    assert scores == sorted(scores, reverse=True)
    assert Link(Level.SYSTEM, 1).score > scores[0]


def test_prints_the_same_symbols_as_it_reads() -> None:
    for symbol in ("NV12", "PIX", "PXB", "PHB", "NODE", "SYS"):
        link = parse_topo_matrix(PAIR.replace("NV4", symbol)).links[0][1]
        assert link is not None
        assert link.symbol == symbol


def test_shipped_samples_are_read(sample_matrix: LinkMatrix) -> None:
    assert sample_matrix.gpu_count in (4, 6, 8, 10, 16)


@pytest.mark.data
def test_public_matrices_are_read_as_listed(public_topology_dir: Path) -> None:
    listed = json.loads((public_topology_dir / "topo_matrices.json").read_text())
    assert len(listed) == 25
    for entry in listed:
        path = public_topology_dir / "nvidia_smi_topo" / f"{entry['name']}.txt"
        matrix = parse_topo_matrix(path.read_text(), path.name)
        gpus = [i for i, name in enumerate(entry["devices"]) if name.startswith("GPU")]
        want = [[entry["matrix"][a][b].replace("SOC", "SYS") for b in gpus] for a in gpus]
        assert [[link.symbol if link else "X" for link in row] for row in matrix.links] == want
