"""Every JSON document has exactly the shape that roostctl.documents declares."""

import json
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from tests.cli.conftest import Run

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.explain import ExplainDocument
from roostctl.documents.jobs import JobsDocument, OneJobDocument
from roostctl.documents.nodes import NodesDocument, OneNodeDocument
from roostctl.documents.status import StatusDocument
from roostctl.documents.timers import TimersDocument
from roostctl.documents.topology import TopologyDocument
from roostctl.testing import FakeOperator, build_candidate, build_job

COMMANDS: dict[str, tuple[list[str], type]] = {
    "nodes": (["nodes"], NodesDocument),
    "node": (["node", "gpu1"], OneNodeDocument),
    "topology": (["topology", "gpu1"], TopologyDocument),
    "jobs": (["jobs", "--all"], JobsDocument),
    "job": (["job", "4711"], OneJobDocument),
    "explain": (["explain", "4711"], ExplainDocument),
    "status": (["status"], StatusDocument),
    "timers": (["timers"], TimersDocument),
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


def test_what_the_driver_did_not_say_is_null_and_never_zero(
    cluster: FakeOperator, run: Run
) -> None:
    node = json.loads(run("node", "gpu3", "--json").stdout)["node"]
    assert node["sample_age_s"] is None
    assert {gpu["sm_frac"] for gpu in node["gpus"]} == {None}
    assert {gpu["memory_bytes"] for gpu in node["gpus"]} == {None}


def test_an_unknown_user_is_null_and_shown_as_a_dash_never_as_root(
    operator: FakeOperator, run: Run
) -> None:
    operator.add_job(build_job("1", user_id=None))
    assert json.loads(run("job", "1", "--json").stdout)["job"]["user_id"] is None
    assert ["User", "-"] in [line.split() for line in run("job", "1").stdout.splitlines()]


def test_a_measured_zero_stays_zero(cluster: FakeOperator, run: Run) -> None:
    node = json.loads(run("node", "gpu2", "--json").stdout)["node"]
    assert {gpu["sm_frac"] for gpu in node["gpus"]} == {0.0}


def test_single_precision_shows_no_false_digits(cluster: FakeOperator, run: Run) -> None:
    node = json.loads(run("node", "gpu1", "--json").stdout)["node"]
    assert node["gpus"][0]["memory_activity_frac"] == 0.3


def test_nan_becomes_null(operator: FakeOperator, run: Run) -> None:
    operator.add_job(
        build_job("1"),
        pb.Explanation(candidates=[build_candidate(["a"], [0], float("nan"), 0)]),
    )
    document = json.loads(run("explain", "1", "--json").stdout)
    assert document["candidates"][0]["score"] is None


def test_an_enum_value_of_a_newer_daemon_is_told_by_number(
    operator: FakeOperator, run: Run
) -> None:
    job = build_job("1")
    job.MergeFromString(b"\x20\x63")  # field 4, state, as 99
    operator.add_job(job)
    assert json.loads(run("job", "1", "--json").stdout)["job"]["state"] == "unknown_99"


@pytest.mark.parametrize("command", [["status"], ["explain", "1"]], ids=["status", "explain"])
def test_a_daemon_of_an_earlier_version_names_no_slots(
    command: list[str], operator: FakeOperator, run: Run
) -> None:
    operator.add_job(build_job("1"), pb.Explanation())
    operator.status.ClearField("slots")
    assert json.loads(run(*command, "--json").stdout)["slots"] == []
    assert "failed" not in run(*command).stdout


def test_topology_says_who_holds_a_gpu_by_uuid_not_by_index(
    cluster: FakeOperator, run: Run
) -> None:
    # The probe's numbering is the reverse of Slurm's here.
    for index, gpu in enumerate(cluster.topologies["gpu1"].gpus):
        gpu.uuid = f"GPU-{7 - index:08x}"
    document = json.loads(run("topology", "gpu1", "--json").stdout)
    assert document["gpus"][7]["job_id"] == "4711"
    assert document["gpus"][0]["free"] is True
