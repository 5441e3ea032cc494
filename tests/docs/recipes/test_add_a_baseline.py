"""The recipe of docs/recipes/add-a-baseline.md, followed: its own code, from the rule to a run."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from roost_sim.catalogue.composition import Composition
from roost_sim.catalogue.compositions import POLICIES
from roost_sim.catalogue.orders import ORDERS, OrderPart
from roost_sim.cli import cli
from roost_sim.worlds.fidelity import Regime

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "recipes" / "add-a-baseline.md").read_text()
NODE = """
tiers:
  node: {gbytes_per_s: 25}
  rack: {gbytes_per_s: 10}
  pod: {gbytes_per_s: 10}
node_kinds:
  plain: {links: pcie8}
racks:
  r0:
    nodes: {plain: 1}
"""
# Job 1 holds the node until 100 s. By then the others wait, 10 to 190 s long.
DURATIONS_S = [100, *(10 * (1 + 7 * n % 19) for n in range(19))]


def roost_sim(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def lpt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps 1, 3 and 4 of the recipe, with the code of the page."""
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(block, "add-a-baseline.md", "exec"), names)
    entry, policy = names["entry"], names["policy"]
    assert isinstance(entry, OrderPart)
    assert isinstance(policy, Composition)
    monkeypatch.setitem(ORDERS, policy.order, entry)
    monkeypatch.setitem(POLICIES, policy.name, policy)


@pytest.fixture
def workload(tmp_path: Path) -> tuple[object, ...]:
    """The options for 20 jobs of a whole node, a second apart, on one node."""
    cluster, trace = tmp_path / "node.yaml", tmp_path / "jobs.csv"
    cluster.write_text(NODE)
    rows = [f"{at_s},{duration_s},8" for at_s, duration_s in enumerate(DURATIONS_S)]
    trace.write_text("\n".join(("submit_s,duration_s,num_gpus", *rows)) + "\n")
    measured = ("--warm-up-frac", 0, "--cool-down-frac", 0, "--full-speed")
    return ("--trace", trace, "--cluster", cluster, *measured)


def avg_jct_s(order: list[int]) -> float:
    """The average completion time if jobs run one after the other in this order."""
    now_s = total_s = 0.0
    for job in order:
        now_s += DURATIONS_S[job]
        total_s += now_s - job
    return total_s / len(order)


def figures(workload: tuple[object, ...], policy: str) -> dict[str, object]:
    result = roost_sim("run", *workload, "--policy", policy, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.usefixtures("lpt")
@pytest.mark.parametrize("policy", ["lpt", "lpt+strict", "lpt+first-fit+open+none"])
def test_a_trace_runs_in_the_order_of_the_rule(workload: tuple[object, ...], policy: str) -> None:
    found = figures(workload, policy)
    assert (found["policy"], found["jobs"], found["completed"]) == (policy, 20, 20)
    assert found["regime"] == "oracle"
    longest_first = sorted(range(1, 20), key=lambda job: (-DURATIONS_S[job], job))
    assert found["avg_jct_s"] == pytest.approx(avg_jct_s([0, *longest_first]))
    assert found["avg_jct_s"] != figures(workload, "fifo")["avg_jct_s"]


@pytest.mark.usefixtures("lpt")
def test_the_list_of_policies_has_the_new_one() -> None:
    rows = json.loads(roost_sim("policies", "--json").stdout)
    (row,) = (row for row in rows if row["name"] == "lpt")
    assert (row["order"], row["regime"]) == ("lpt", Regime.ORACLE.value)
    assert row["source"].startswith("Graham")


def test_without_its_entry_the_name_is_refused(workload: tuple[object, ...]) -> None:
    result = roost_sim("run", *workload, "--policy", "lpt+strict")
    assert result.exit_code == 2
    assert "no order 'lpt'" in result.stderr


def test_files_of_the_recipe_exist() -> None:
    named = re.findall(r"`((?:[\w.]+/)+[\w.]*)`", PAGE)
    assert len(named) > 15
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []
