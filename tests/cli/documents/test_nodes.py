"""The JSON of a node: missing values, measured zeros, digits."""

import json

from tests.cli.conftest import Run

from roostctl.documents.nodes import node_document
from roostctl.testing import GIB, FakeOperator, build_node


def test_what_the_driver_did_not_say_is_null_and_never_zero(
    cluster: FakeOperator, run: Run
) -> None:
    node = json.loads(run("node", "gpu3", "--json").stdout)["node"]
    assert node["sample_age_s"] is None
    assert {gpu["sm_frac"] for gpu in node["gpus"]} == {None}
    assert {gpu["memory_bytes"] for gpu in node["gpus"]} == {None}


def test_a_measured_zero_stays_zero(cluster: FakeOperator, run: Run) -> None:
    node = json.loads(run("node", "gpu2", "--json").stdout)["node"]
    assert {gpu["sm_frac"] for gpu in node["gpus"]} == {0.0}


def test_single_precision_shows_no_false_digits(cluster: FakeOperator, run: Run) -> None:
    node = json.loads(run("node", "gpu1", "--json").stdout)["node"]
    assert node["gpus"][0]["memory_activity_frac"] == 0.3


def test_gpus_come_by_index() -> None:
    node = build_node("n1", gpu_count=3)
    gpus = list(node.gpus)
    del node.gpus[:]
    node.gpus.extend(reversed(gpus))
    assert [gpu["index"] for gpu in node_document(node)["gpus"]] == [0, 1, 2]


def test_free_and_total_capacity_keep_their_keys() -> None:
    document = node_document(build_node("n1", holders={0: "7"}))
    assert (document["cpu_count"], document["cpu_free_count"]) == (64, 56)
    assert (document["memory_bytes"], document["memory_free_bytes"]) == (512 * GIB, 452 * GIB)
    held, free = document["gpus"][:2]
    assert (held["free"], held["job_id"]) == (False, "7")
    assert (free["free"], free["job_id"]) == (True, None)
