"""`roostctl nodes`: what each column shows."""

from tests.cli.conftest import Run

from roostctl.commands.nodes import sample_age, state, strip
from roostctl.documents.nodes import free_count
from roostctl.testing import FakeOperator, build_node


def test_one_mark_a_gpu_in_index_order() -> None:
    node = build_node("n1", holders={1: "7", 2: "7"}, faults={2: "lost", 3: "lost"}, gpu_count=5)
    assert strip(node).plain == ".#!!."
    assert strip(build_node("n1", gpu_count=0)).plain == "-"


def test_faulty_gpus_are_not_counted_as_free() -> None:
    assert free_count(build_node("n1", holders={0: "7"}, faults={1: "lost"}, gpu_count=4)) == 2


def test_a_sample_of_this_moment_differs_from_no_sample() -> None:
    node = build_node("n1")
    node.sample_age_s = 0.0
    assert sample_age(node) == "0.0 s"
    assert sample_age(build_node("n1", has_probe=False)) == "no probe"


def test_an_unusable_node_is_red() -> None:
    node = build_node("n1")
    assert state(node).style == ""
    node.usable = False
    assert state(node).style == "red"


def test_the_summary_counts_free_gpus_of_usable_nodes_only(
    operator: FakeOperator, run: Run
) -> None:
    drained = build_node("n2", gpu_count=4)
    drained.usable = False
    operator.add_node(build_node("n1", holders={0: "7"}))
    operator.add_node(drained)
    assert "2 nodes, 12 GPUs, 7 free on usable nodes." in run("nodes").stdout


def test_gpus_without_a_reading_do_not_lower_the_mean_load(
    operator: FakeOperator, run: Run
) -> None:
    node = build_node("n1", holders={0: "7", 1: "7"}, gpu_count=4)
    for gpu in node.gpus[2:]:
        for field in ("sm_frac", "memory_used_bytes"):
            gpu.ClearField(field)
    operator.add_node(node)
    row = run("nodes").stdout.splitlines()[1].split()
    assert row[4:6] == ["87%", "120/160"]
