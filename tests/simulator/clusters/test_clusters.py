import re
from pathlib import Path

import pytest

from roost_engine.domain.model import NodeName
from roost_engine.domain.topology import parse_topo_matrix
from roost_sim.clusters.cluster_file import load_cluster, read_clos, read_cluster
from roost_sim.clusters.cluster_spec import (
    ClusterSpec,
    NetworkTier,
    NodeKind,
    SimNode,
    TierSpec,
    make_racks,
)
from roost_sim.clusters.link_shapes import SHAPES
from roost_sim.clusters.presets import PRESET_NAMES, preset
from roost_sim.errors import ClusterError

PAGE = (Path(__file__).parents[3] / "docs" / "simulator" / "clusters.md").read_text()
SAMPLE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]
MATRIX = "\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tNV4\tX\n"


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    (tmp_path / "other.txt").write_text(MATRIX)
    path = tmp_path / "mine.yaml"
    path.write_text(SAMPLE)
    return path


def names(*numbers: int) -> list[NodeName]:
    return [NodeName(f"n{number:05d}") for number in numbers]


def test_sample_of_the_page_loads(sample: Path) -> None:
    cluster = load_cluster(str(sample))
    assert cluster.name == "my-cluster"
    assert [len([n for n in cluster.nodes if n.rack == rack]) for rack in ("r1", "r2", "r3")] == [
        16,
        16,
        16,
    ]
    assert cluster.gpu_count == 24 * 8 + 24 * 2
    assert cluster.largest_node_gpu_count == 8
    assert cluster.nodes[-1].kind.links.score((0, 1)) == 400
    assert cluster.nodes[0].kind.memory_bytes == 1 << 40


def test_tier_is_the_farthest_pair(sample: Path) -> None:
    cluster = read_cluster(sample)
    assert cluster.network_tier(names(3)) == NetworkTier.NODE
    assert cluster.network_tier(names(3, 3)) == NetworkTier.NODE
    assert cluster.network_tier(names(3, 4)) == NetworkTier.RACK
    assert cluster.network_tier(names(3, 20)) == NetworkTier.POD
    assert cluster.network_tier(names(3, 20, 40)) == NetworkTier.CORE
    with pytest.raises(ValueError, match="has a node"):
        cluster.network_tier([])


def test_uplinks_carry_what_is_below_over_the_oversubscription(sample: Path) -> None:
    cluster = read_cluster(sample)
    assert cluster.port_bytes_per_s() == 25e9
    assert cluster.rack_uplink_bytes_per_s("r1") == pytest.approx(16 * 25e9 / 2)
    assert cluster.pod_uplink_bytes_per_s("p1") == pytest.approx(32 * 25e9 / 4)


def test_engine_is_told_of_every_node(sample: Path) -> None:
    specs = read_cluster(sample).node_specs("main")
    assert len({spec.name for spec in specs}) == 48
    assert (specs[0].rack, specs[0].features, specs[0].partitions) == ("r1", ("a100",), ("main",))
    assert specs[0].gpu_count == 8


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("rack: {gbytes", "rack: {gbyte", "mine.yaml:4: tiers.rack.gbyte"),
        ("gbytes_per_s: 300", "gbytes_per_s: -1", "mine.yaml:3: tiers.node.gbytes_per_s: want > 0"),
        ("gbytes_per_s: 300", "gbytes_per_s: fast", "want float, got str"),
        ("oversubscription: 2", "oversubscription: 0.5", "want >= 1, got 0.5"),
        ("links: a100x8", "links: a100x9", "mine.yaml:8: node_kinds.big: no links a100x9; there"),
        ("{links: a100x8, gpu", "{gpu", "want either links or topology_file"),
        ("topology_file: other.txt", "topology_file: no.txt", "mine.yaml:9: .*no.txt: cannot be"),
        ("{other: 16}", "{others: 16}", "mine.yaml:13: no node kind others; there are big, other"),
        ("{other: 16}", "{other: 0}", "mine.yaml:13: racks.r3.nodes.other: want >= 1, got 0"),
        ("{other: 16}", "{other: 99990}", "mine.yaml:13: more than 100000 nodes"),
        ("racks:", "rack:", "mine.yaml:10: rack: unknown key, did you mean racks"),
        ("name: my-cluster", "name: [", "mine.yaml:3: not YAML"),
    ],
)
def test_a_wrong_file_names_the_line(sample: Path, old: str, new: str, problem: str) -> None:
    assert SAMPLE.count(old) == 1
    sample.write_text(SAMPLE.replace(old, new))
    with pytest.raises(ClusterError, match=problem):
        read_cluster(sample)


def test_all_problems_are_told_at_once(sample: Path) -> None:
    sample.write_text(SAMPLE.replace("gbytes_per_s: 300", "gbytes_per_s: x").replace("p2", "2"))
    with pytest.raises(ClusterError) as caught:
        read_cluster(sample)
    assert len(caught.value.problems) == 2


def test_a_bad_matrix_names_both_files(sample: Path) -> None:
    (sample.parent / "other.txt").write_text(MATRIX.replace("NV4\tX", "NVX\tX"))
    with pytest.raises(ClusterError, match=r"mine\.yaml:9: .*other\.txt:3: "):
        read_cluster(sample)


def test_neither_file_nor_preset() -> None:
    with pytest.raises(ClusterError, match="no such file, and no preset; there are philly, venus"):
        load_cluster("nowhere.yaml")


def test_clos_map_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "hosts.csv").write_text(
        "host,dsw,psw,asw\nh0,G,P1,S1\nh1,G,P1,S1\nh2,G,P1,S2\nh3,G,P2,S1\n"
    )
    text = SAMPLE[: SAMPLE.index("racks:")] + "clos: {file: hosts.csv, node_kind: big}\n"
    (tmp_path / "other.txt").write_text(MATRIX)
    path = tmp_path / "clos.yaml"
    path.write_text(text)
    cluster = read_cluster(path)
    h0, h1, h2, h3 = (node.name for node in cluster.nodes)
    assert cluster.network_tier([h0, h1]) == NetworkTier.RACK
    assert cluster.network_tier([h0, h2]) == NetworkTier.POD
    assert cluster.network_tier([h0, h3]) == NetworkTier.CORE
    path.write_text(text.replace("node_kind: big", "node_kind: bug"))
    with pytest.raises(ClusterError, match=r"clos\.yaml:10: no node kind bug"):
        read_cluster(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("host,psw\n", ":1: no column asw"),
        ("host,psw,asw\n", ": no hosts"),
        ("host,psw,asw\nh0,P,S\nh0,P,S\n", ":3: host h0 stands twice"),
        ("host,psw,asw\nh0,P\n", ":2: want host, psw and asw"),
    ],
)
def test_a_wrong_clos_map_names_the_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text(text)
    with pytest.raises(ClusterError, match=problem):
        read_clos(path, NodeKind(name="k", links=SHAPES["single"]))


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


def test_a_cluster_must_hold_together() -> None:
    kind = NodeKind(name="k", links=SHAPES["pcie2"])
    tiers = dict.fromkeys(NetworkTier, TierSpec(bandwidth_bytes_per_s=1e9))
    twice = (SimNode(NodeName("a"), kind, "r"), SimNode(NodeName("a"), kind, "r"))
    with pytest.raises(ValueError, match="stands twice"):
        ClusterSpec("c", "test", twice, tiers)
    two_pods = (SimNode(NodeName("a"), kind, "r", "p"), SimNode(NodeName("b"), kind, "r", "q"))
    with pytest.raises(ValueError, match="in two pods"):
        ClusterSpec("c", "test", two_pods, tiers)
    del tiers[NetworkTier.POD]
    with pytest.raises(ValueError, match="no figures for tier POD"):
        ClusterSpec("c", "test", make_racks(kind, {"r": 2}), tiers)


@pytest.mark.data
def test_the_real_clos_map(data_folder: Path) -> None:
    path = data_folder / "cluster" / "alibaba_lingjun_2023_network_topo.csv"
    nodes = read_clos(path, NodeKind(name="k", links=SHAPES["h100x8"]))
    assert (len(nodes), len({n.rack for n in nodes}), len({n.pod for n in nodes})) == (847, 119, 3)


@pytest.mark.data
def test_philly_preset_has_the_machines_of_the_list(data_folder: Path) -> None:
    lines = (data_folder / "cluster" / "philly_machines.csv").read_text().split()[1:]
    listed = [int(line.split(",")[1]) for line in lines]
    counts = [node.kind.gpu_count for node in preset("philly").nodes]
    assert [counts.count(size) for size in (4, 8)] == [listed.count(size) for size in (4, 8)]


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


def test_a_part_of_a_preset_has_every_so_manieth_rack() -> None:
    assert len(load_cluster("venus/3").nodes) == 3 * 19  # racks 0, 3 and 6 of seven
    assert load_cluster("venus/1") == load_cluster("venus")
    with pytest.raises(ClusterError, match="venus/0"):
        load_cluster("venus/0")
