"""`roostctl node NAME`."""

import pytest
from tests.cli.conftest import Run

from roostctl.testing import FakeOperator, build_node


@pytest.mark.parametrize("args", [["node", "gpu9"], ["topology", "gpu9"]], ids=" ".join)
def test_unknown_node_exits_1(args: list[str], cluster: FakeOperator, run: Run) -> None:
    result = run(*args)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "roostctl: no node named 'gpu9'\n"


def gpu_line(text: str, index: int) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"{index} ")]
    return line.split()


def test_a_faulty_gpu_is_not_shown_as_free(operator: FakeOperator, run: Run) -> None:
    operator.add_node(build_node("n1", holders={1: "7"}, faults={0: "lost"}))
    text = run("node", "n1").stdout
    assert gpu_line(text, 0)[1] == "-"
    assert gpu_line(text, 0)[-1] == "lost"
    assert gpu_line(text, 1)[1] == "7"
    assert gpu_line(text, 2)[1] == "free"


def test_gpus_come_by_index(operator: FakeOperator, run: Run) -> None:
    node = build_node("n1", gpu_count=3)
    gpus = list(node.gpus)
    del node.gpus[:]
    node.gpus.extend(reversed(gpus))
    operator.add_node(node)
    shown = [line[0] for line in run("node", "n1").stdout.splitlines()[-3:]]
    assert shown == ["0", "1", "2"]


def test_a_node_without_a_probe_shows_no_load(operator: FakeOperator, run: Run) -> None:
    node = build_node("n1", has_probe=False, gpu_count=1)
    node.usable = False
    operator.add_node(node)
    text = run("node", "n1").stdout
    assert "no probe has reported" in text
    assert "idle (Slurm starts no jobs here now)" in text
    assert gpu_line(text, 0)[:7] == ["0", "closed", "-", "-", "-", "-", "-"]
