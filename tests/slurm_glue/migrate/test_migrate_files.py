"""gres.conf and slurm.conf with some nodes changed and others not."""

import pytest

from roost_slurm.migrate.migrate_files import (
    MigrateError,
    NodeWords,
    gres_conf,
    node_words,
    slurm_conf,
    with_others,
)
from roost_slurm.site.conf_text import conf_lines

NODES = ["gpu1", "gpu2", "gpu3"]
SLURM_CONF = """\
ClusterName=x
# NodeName=gpu2 Gres=old
NodeName=DEFAULT CPUs=8
NodeName=gpu[1-3] Gres=gpu:a100:2 Feature=big CPUs=16 State=UNKNOWN
PartitionName=main Nodes=ALL
"""
NEW_GRES = """\
AutoDetect=off
NodeName=gpu[1-3] Name=gpu Type=g0 File=/dev/nvidia0
NodeName=gpu[1-3] Name=gpu Type=g1 File=/dev/nvidia1
"""
WORDS = NodeWords("gpu:g0:1,gpu:g1:1", "big,a100")


def words_of(text: str, node: str) -> NodeWords | None:
    return node_words(conf_lines(text)).get(node)


def test_names_in_quotes_are_names() -> None:
    text = 'NodeName="DEFAULT" Feature=big\nNodeName="gpu[1-2]" Gres="gpu:a100:2"\n'
    assert words_of(text, "gpu2") == NodeWords("gpu:a100:2", "big")
    lines = slurm_conf(text, {"gpu2": WORDS}).splitlines()
    assert lines[1:] == [
        'NodeName=gpu1 Gres="gpu:a100:2"',
        f"NodeName=gpu2 Gres={WORDS.gres} Feature={WORDS.features}",
    ]


def test_one_node_leaves_the_line_of_its_neighbours() -> None:
    changed = slurm_conf(SLURM_CONF, {"gpu2": WORDS})
    assert changed.splitlines()[3:5] == [
        "NodeName=gpu[1,3] Gres=gpu:a100:2 Feature=big CPUs=16 State=UNKNOWN",
        "NodeName=gpu2 Gres=gpu:g0:1,gpu:g1:1 Feature=big,a100 CPUs=16 State=UNKNOWN",
    ]
    assert len(changed.splitlines()) == len(SLURM_CONF.splitlines()) + 1


def test_the_words_of_a_node_are_read_and_put_back() -> None:
    assert words_of(SLURM_CONF, "gpu2") == NodeWords("gpu:a100:2", "big")
    assert words_of(SLURM_CONF, "cpu1") is None
    there = slurm_conf(SLURM_CONF, {"gpu2": WORDS})
    assert words_of(there, "gpu2") == WORDS
    back = slurm_conf(there, {"gpu2": NodeWords("gpu:a100:2", "big")})
    assert words_of(back, "gpu2") == words_of(back, "gpu1")


ODD_CONF = """\
NodeSet=gpus Nodes=gpu[1-3]
\tnodename = gpu[1-3]\tCPUs=16 \\
    Gres=gpu:a100:2 \\
    Feature=big  # was Gres=gpu:4
PartitionName=main \\
  Nodes=gpus
"""


def test_a_line_that_goes_on_below_is_one_line() -> None:
    assert words_of(ODD_CONF, "gpu2") == NodeWords("gpu:a100:2", "big")
    changed = slurm_conf(ODD_CONF, {"gpu2": WORDS})
    assert words_of(changed, "gpu2") == WORDS
    assert words_of(changed, "gpu1") == words_of(changed, "gpu3") == words_of(ODD_CONF, "gpu1")
    kept = ODD_CONF.splitlines()
    lines = changed.splitlines()
    assert (lines[0], lines[-2:]) == (kept[0], kept[-2:])
    assert len(lines) == 5
    assert "CPUs=16" in lines[2]


def test_a_long_line_of_gres_conf_is_one_line_too() -> None:
    present = "NodeName=gpu[1-3] Name=gpu \\\n  File=/dev/nvidia[0-1]\n"
    changed = gres_conf(present, NEW_GRES, "gpu2", NODES).splitlines()
    assert changed[0] == "NodeName=gpu[1,3] Name=gpu   File=/dev/nvidia[0-1]"
    assert [line for line in changed if "gpu2" in line] == [
        "NodeName=gpu2 Name=gpu Type=g0 File=/dev/nvidia0",
        "NodeName=gpu2 Name=gpu Type=g1 File=/dev/nvidia1",
    ]


def test_a_range_beyond_all_clusters_is_refused_quickly() -> None:
    with pytest.raises(MigrateError, match="NodeName=n"):
        words_of("NodeName=n[1-99999999] CPUs=1\n", "n1")


def test_a_node_in_an_included_file_is_refused() -> None:
    with pytest.raises(MigrateError, match="no NodeName line with gpu9; cure"):
        slurm_conf(SLURM_CONF, {"gpu9": WORDS})


def test_gres_conf_with_names_gives_up_one_node() -> None:
    own = "# ours\nNodeName=gpu[1-3] Name=gpu Type=a100 File=/dev/nvidia[0-1]\n"
    mixed = gres_conf(own, NEW_GRES, "gpu2", NODES)
    assert mixed.splitlines() == [
        "# ours",
        "NodeName=gpu[1,3] Name=gpu Type=a100 File=/dev/nvidia[0-1]",
        "NodeName=gpu2 Name=gpu Type=g0 File=/dev/nvidia0",
        "NodeName=gpu2 Name=gpu Type=g1 File=/dev/nvidia1",
    ]
    back = gres_conf(mixed, own, "gpu2", NODES)
    assert back.splitlines()[1:] == [
        "NodeName=gpu[1,3] Name=gpu Type=a100 File=/dev/nvidia[0-1]",
        "NodeName=gpu2 Name=gpu Type=a100 File=/dev/nvidia[0-1]",
    ]


def test_lines_for_every_node_are_kept_for_the_others() -> None:
    present = "AutoDetect=nvml\nName=gpu Type=a100\n"
    assert gres_conf(present, NEW_GRES, "gpu2", NODES).splitlines() == [
        "NodeName=gpu[1,3] AutoDetect=nvml",
        "NodeName=gpu[1,3] Name=gpu Type=a100",
        "NodeName=gpu2 AutoDetect=off Name=gpu Type=g0 File=/dev/nvidia0",
        "NodeName=gpu2 AutoDetect=off Name=gpu Type=g1 File=/dev/nvidia1",
    ]


def test_a_resource_of_every_node_stays_with_those_that_have_no_gpus() -> None:
    """A CPU node that lost its line would be drained: it has less than slurm.conf says."""
    present = "Name=nic Count=2\nName=gpu Type=a100 File=/dev/nvidia[0-1]\n"
    mixed = gres_conf(present, NEW_GRES, "gpu2", NODES)
    assert mixed.splitlines()[0] == "Name=nic Count=2"
    back = gres_conf(mixed, present, "gpu2", NODES)
    assert back.count("nic") == 1


def test_names_of_resources_are_read_as_slurm_reads_them() -> None:
    """In any case of letters."""
    present = "NodeName=gpu[1-3] Name=NVMe Count=4\n"
    assert present in gres_conf(present, NEW_GRES, "gpu2", NODES, {"NVMe"})


def test_all_nodes_one_after_the_other_leave_no_line_of_before() -> None:
    text = "Name=gpu Type=a100 File=/dev/nvidia[0-1]\n"
    for node in NODES:
        text = gres_conf(text, NEW_GRES, node, NODES)
    assert "a100" not in text
    assert len(text.splitlines()) == 2 * len(NODES)


def test_a_list_that_cannot_be_read_is_named() -> None:
    with pytest.raises(MigrateError, match=r"gpu\[1-"):
        slurm_conf("NodeName=gpu[1- Gres=gpu:1\n", {"gpu1": WORDS})


@pytest.mark.parametrize(
    ("words", "others", "own"),
    [
        ("NodeAddr=10.0.0.[1-3]", "NodeAddr=10.0.0.[1,3]", "NodeAddr=10.0.0.2"),
        ("NodeHostname=c,a,b", "NodeHostname=c,b", "NodeHostname=a"),
        ("nodehostname = h[1-3]", "nodehostname = h[1,3]", "nodehostname = h2"),
        ("Port=[7001-7003] CPUs=8", "Port=[7001,7003] CPUs=8", "Port=7002 CPUs=8"),
        ("NodeAddr=lb Port=7001", "NodeAddr=lb Port=7001", "NodeAddr=lb Port=7001"),
    ],
)
def test_addresses_and_ports_go_with_their_nodes(words: str, others: str, own: str) -> None:
    """Slurm does not start with a list that is longer than that of the names."""
    changed = slurm_conf(f"NodeName=gpu[1-3] {words} Gres=gpu:2\n", {"gpu2": WORDS})
    assert changed.splitlines() == [
        f"NodeName=gpu[1,3] {others} Gres=gpu:2",
        f"NodeName=gpu2 Gres={WORDS.gres} Feature={WORDS.features} {own}",
    ]


def test_nodes_that_are_named_in_no_order_keep_it() -> None:
    line = "NodeName=gpu3,gpu1,gpu2 NodeAddr=10.0.0.[7-9]\n"
    assert slurm_conf(line, {"gpu1": NodeWords()}).splitlines() == [
        "NodeName=gpu3,gpu2 NodeAddr=10.0.0.[7,9]",
        "NodeName=gpu1 NodeAddr=10.0.0.8",
    ]


def test_nodes_that_get_the_same_words_stay_on_one_line() -> None:
    """A line for each of thousands of nodes would take minutes."""
    words = {f"gpu{number}": WORDS for number in (1, 3)} | {"gpu5": NodeWords("gpu:2")}
    changed = slurm_conf("NodeName=gpu[1-5] NodeAddr=h[1-5] Gres=gpu:4\n", words)
    assert changed.splitlines() == [
        "NodeName=gpu[2,4] NodeAddr=h[2,4] Gres=gpu:4",
        f"NodeName=gpu[1,3] Gres={WORDS.gres} Feature={WORDS.features} NodeAddr=h[1,3]",
        "NodeName=gpu5 Gres=gpu:2 NodeAddr=h5",
    ]


def test_what_a_line_leaves_out_comes_from_the_default_lines_before_it() -> None:
    """A feature of these would be lost, as soon as the node's own line has features."""
    text = (
        "NodeName=n0\nNodeName=DEFAULT Gres=gpu:a100:2 Feature=old\n"
        "NodeName=DEFAULT Feature=fast\nNodeName=n1\nNodeName=n2 Feature=slow\n"
    )
    assert node_words(conf_lines(text)) == {
        "n0": NodeWords(),
        "n1": NodeWords("gpu:a100:2", "fast"),
        "n2": NodeWords("gpu:a100:2", "slow"),
    }


def test_words_in_quotes_are_read_and_replaced() -> None:
    text = 'NodeName=n1 Feature="big,fast" Gres="gpu:2" CPUs=4\n'
    assert words_of(text, "n1") == NodeWords("gpu:2", "big,fast")
    changed = slurm_conf(text, {"n1": WORDS})
    assert changed == f"NodeName=n1 Gres={WORDS.gres} Feature={WORDS.features} CPUs=4\n"


def test_resources_beside_gpus_stay() -> None:
    """Jobs that ask for them could start nowhere else."""
    new = NodeWords("gpu:g0:1,gpu:g1:1,a100:2", "a100")
    own = "gpu:a100:2,nvme:4,a100:1,lustre:no_consume:4G,gputoken:2"
    assert with_others(new, own) == NodeWords(f"{new.gres},nvme:4,lustre:no_consume:4G", "a100")
    present = "Name=nvme Count=4\nNodeName=gpu2 Name=gpu File=/dev/nvidia[0-1]\n"
    mixed = gres_conf(present, NEW_GRES, "gpu2", NODES, {"nvme"})
    assert mixed.splitlines()[0] == "Name=nvme Count=4"
    assert len(mixed.splitlines()) == 3
    back = gres_conf(mixed, present, "gpu2", NODES, {"nvme"})
    assert back == present


def test_a_gres_conf_that_includes_another_file_is_refused() -> None:
    """Slurm would read the line `NodeName=gpu[1,3] Include x` as none of these nodes' GPUs."""
    with pytest.raises(MigrateError, match=r"gres.conf:2: Include more.conf: cure"):
        gres_conf("# ours\nInclude more.conf\n", NEW_GRES, "gpu2", NODES)
