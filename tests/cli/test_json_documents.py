"""Every JSON document has exactly the shape that roostctl.documents declares."""

import json
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from tests.cli.conftest import Run

from roostctl.documents.eta import EtaDocument
from roostctl.documents.explain import ExplainDocument
from roostctl.documents.jobs import JobsDocument, OneJobDocument
from roostctl.documents.nodes import NodesDocument, OneNodeDocument
from roostctl.documents.status import StatusDocument
from roostctl.documents.timers import TimersDocument
from roostctl.documents.topology import TopologyDocument
from roostctl.testing import FakeOperator

COMMANDS: dict[str, tuple[list[str], type]] = {
    "nodes": (["nodes"], NodesDocument),
    "node": (["node", "gpu1"], OneNodeDocument),
    "topology": (["topology", "gpu1"], TopologyDocument),
    "jobs": (["jobs", "--all"], JobsDocument),
    "job": (["job", "4711"], OneJobDocument),
    "explain": (["explain", "4711"], ExplainDocument),
    "status": (["status"], StatusDocument),
    "timers": (["timers"], TimersDocument),
    "eta": (["eta"], EtaDocument),
}


def misfits(value: object, shape: Any, where: str = "$") -> list[str]:
    """Say where a JSON value is not what a type says; a key too many is a misfit as well."""
    if is_typeddict(shape):
        hints = get_type_hints(shape)
        if not isinstance(value, dict) or list(value) != list(hints):
            return [f"{where}: want the keys {list(hints)} in this order, got {value!r:.200}"]
        parts = [misfits(value[key], hints[key], f"{where}.{key}") for key in hints]
    elif get_origin(shape) is list and isinstance(value, list):
        (item,) = get_args(shape)
        parts = [misfits(entry, item, f"{where}[{i}]") for i, entry in enumerate(value)]
    elif get_origin(shape) is dict and isinstance(value, dict):
        _, item = get_args(shape)
        parts = [misfits(entry, item, f"{where}.{key}") for key, entry in value.items()]
    elif isinstance(shape, UnionType):
        fits = any(not misfits(value, option) for option in get_args(shape))
        parts = [] if fits else [[f"{where}: want {shape}, got {value!r:.200}"]]
    else:
        parts = [] if type(value) is shape else [[f"{where}: want {shape}, got {value!r:.200}"]]
    return [problem for part in parts for problem in part]


@pytest.mark.parametrize("name", COMMANDS)
def test_document_has_the_declared_shape_and_names_its_schema(
    name: str, cluster: FakeOperator, run: Run
) -> None:
    args, shape = COMMANDS[name]
    document = json.loads(run(*args, "--json").stdout)
    assert misfits(document, shape) == []
    assert document["schema"] == f"roost.{name}/1"


def test_the_check_itself_finds_misfits(cluster: FakeOperator, run: Run) -> None:
    document = json.loads(run("nodes", "--json").stdout)
    document["nodes"][0]["cpu_count"] = "64"
    document["nodes"][1]["gpus"][0]["surprise"] = 1
    found = misfits(document, NodesDocument)
    assert [problem.partition(":")[0] for problem in found] == [
        "$.nodes[0].cpu_count",
        "$.nodes[1].gpus[0]",
    ]
