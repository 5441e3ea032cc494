"""Cluster files: YAML and Clos maps, and what is wrong with one."""

from pathlib import Path

import pytest
from tests.simulator.clusters.page import MATRIX, SAMPLE

from roost_sim.clusters.cluster_file import load_cluster, read_clos, read_cluster
from roost_sim.clusters.cluster_spec import (
    NetworkTier,
    NodeKind,
)
from roost_sim.clusters.link_shapes import SHAPES
from roost_sim.errors import ClusterError


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


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("rack: {gbytes", "rack: {gbyte", "mine.yaml:4: tiers.rack.gbyte"),
        ("gbytes_per_s: 300", "gbytes_per_s: -1", "mine.yaml:3: tiers.node.gbytes_per_s: want > 0"),
        ("gbytes_per_s: 300", "gbytes_per_s: fast", "want a number, got the text 'fast'"),
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


def test_all_problems_are_reported_at_once(sample: Path) -> None:
    sample.write_text(SAMPLE.replace("gbytes_per_s: 300", "gbytes_per_s: x").replace("p2", "2"))
    with pytest.raises(ClusterError) as caught:
        read_cluster(sample)
    assert len(caught.value.problems) == 2


def test_a_bad_matrix_names_both_files(sample: Path) -> None:
    (sample.parent / "other.txt").write_text(MATRIX.replace("NV4\tX", "NVX\tX"))
    with pytest.raises(ClusterError, match=r"mine\.yaml:9: .*other\.txt:3: "):
        read_cluster(sample)


def test_a_device_without_end_is_not_read_without_end(sample: Path) -> None:
    with pytest.raises(ClusterError, match="/dev/zero: larger than 16 MiB"):
        read_cluster(Path("/dev/zero"))
    (sample.parent / "other.txt").unlink()
    (sample.parent / "other.txt").symlink_to("/dev/zero")
    with pytest.raises(ClusterError, match="larger than 16 MiB"):
        read_cluster(sample)


def test_a_node_with_more_gpus_than_roost_places_on_is_refused(sample: Path) -> None:
    names = [f"GPU{index}" for index in range(17)]
    rows = [f"{a}\t" + "\t".join("X" if a == b else "SYS" for b in names) for a in names]
    (sample.parent / "other.txt").write_text("\n".join(["\t" + "\t".join(names), *rows]) + "\n")
    with pytest.raises(ClusterError, match=r"mine.yaml:9: .*other.txt: 17 GPUs; .* 16 at most"):
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


@pytest.mark.data
def test_the_real_clos_map(data_folder: Path) -> None:
    path = data_folder / "cluster" / "alibaba_lingjun_2023_network_topo.csv"
    nodes = read_clos(path, NodeKind(name="k", links=SHAPES["h100x8"]))
    assert (len(nodes), len({n.rack for n in nodes}), len({n.pod for n in nodes})) == (847, 119, 3)
