"""labels: which nodes have a partition or a feature."""

from roost_engine.cluster.labels import NodeLabels
from roost_engine.testing.builders import node


def test_rows_carry_what_their_newest_spec_names() -> None:
    labels = NodeLabels()
    old = node("a", features=("a100", "nvlink"))
    for index in range(200):
        labels.add_node()
        labels.change(index, None, old if index in {3, 150} else node(f"n{index}"))
    assert labels.nodes_with("feature", "a100").nonzero()[0].tolist() == [3, 150]
    labels.change(3, old, node("a", features=("nvlink",)))
    assert labels.nodes_with("feature", "a100").nonzero()[0].tolist() == [150]
    assert labels.nodes_with("feature", "nvlink").nonzero()[0].tolist() == [3, 150]
    assert labels.nodes_with("partition", old.partitions[0]).all()
    assert not labels.nodes_with("feature", "unknown").any()
    labels.change(150, old, None)
    assert not labels.nodes_with("partition", old.partitions[0])[150]


def test_what_is_read_may_be_changed() -> None:
    labels = NodeLabels()
    labels.add_node()
    labels.change(0, None, node("a", features=("a100",)))
    labels.nodes_with("feature", "a100")[:] = False
    assert labels.nodes_with("feature", "a100").tolist() == [True]
