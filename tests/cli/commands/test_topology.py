"""`roostctl topology NAME`."""

from tests.cli.conftest import Run

from roost_engine.domain.topology import parse_topo_matrix
from roostctl.testing import FakeOperator, build_node, build_topology


def test_topology_reads_back_as_the_matrix_it_shows(cluster: FakeOperator, run: Run) -> None:
    text = run("topology", "gpu1", COLUMNS="40").stdout
    matrix = parse_topo_matrix(text)
    for link in cluster.topologies["gpu1"].links:
        there = matrix.links[link.a][link.b]
        assert there is not None
        assert there.nvlink_count == link.nvlink_count
        assert int(there.level) == int(link.level)


def test_topology_of_a_node_without_a_probe_exits_1_and_tells_the_cure(
    cluster: FakeOperator, run: Run
) -> None:
    result = run("topology", "gpu3")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "node gpu3 has no probe: start roost-probe there" in result.stderr


def cells(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return line.split()


def test_each_gpu_shows_its_links_and_its_holder(operator: FakeOperator, run: Run) -> None:
    operator.add_node(
        build_node("n1", holders={0: "7"}, faults={1: "lost"}, gpu_count=4),
        build_topology("n1", 4, pairs=[(0, 1)]),
    )
    text = run("topology", "n1").stdout
    assert cells(text, "GPU0") == (
        ["GPU0", "X", "NV4", "SYS", "SYS", "PIX", "SYS", "0-31", "0", "job", "7"]
    )
    assert cells(text, "GPU1")[1] == "NV4"  # a link is shown from both sides
    assert text.count("faulty: lost") == 1
    assert cells(text, "NIC0") == ["NIC0", "PIX", "PIX", "SYS", "SYS", "X", "-", "-", "0", "-"]


def test_the_legend_explains_only_what_the_matrix_shows(operator: FakeOperator, run: Run) -> None:
    operator.add_node(build_node("n1", gpu_count=2), build_topology("n1", 2, pairs=[], nic_count=0))
    legend = run("topology", "n1").stdout.partition("Legend:")[2]
    assert "across the link between CPU sockets" in legend
    assert "NVLink" not in legend
    assert "PIX" not in legend


def test_a_missing_link_is_shown_as_unknown(operator: FakeOperator, run: Run) -> None:
    topology = build_topology("n1", 2, pairs=[], nic_count=0)
    del topology.links[:]
    operator.add_node(build_node("n1", gpu_count=2), topology)
    assert cells(run("topology", "n1").stdout, "GPU0")[:3] == ["GPU0", "X", "-"]
