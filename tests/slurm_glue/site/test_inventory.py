"""The GPUs of nodes from the probes' descriptions, and descriptions that are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from roost_slurm.site import inventory
from roost_slurm.site.inventory import Gpu, InventoryError, NodeGpus

A100 = "NVIDIA A100-SXM4-40GB"


def node(name: str, minors: tuple[int, ...] = (0, 1), model: str = A100) -> NodeGpus:
    return NodeGpus(name, tuple(Gpu(minor_number=minor, model=model) for minor in minors))


def described(minors: list[int], model: str = A100, **more: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "gpus": [
            {"index": i, "uuid": f"GPU-{i}", "model": model, "minor_number": minor, **more}
            for i, minor in enumerate(minors)
        ],
    }


def test_gres_order_is_that_of_the_device_files(tmp_path: Path) -> None:
    (tmp_path / "n1.json").write_text(json.dumps(described([7, 0, 3])))
    (loaded,) = inventory.load([tmp_path / "n1.json"])
    assert loaded == node("n1", (0, 3, 7))


@pytest.mark.parametrize(
    "document",
    [
        {"n1": described([0, 1]), "n2": described([0, 1])},
        [{"node": "n1", **described([0, 1])}, {"node": "n2", **described([0, 1])}],
    ],
)
def test_reads_one_file_for_all_nodes(tmp_path: Path, document: object) -> None:
    (tmp_path / "all.json").write_text(json.dumps(document))
    assert inventory.load([tmp_path / "all.json"]) == (node("n1"), node("n2"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("[]", "no node described"),
        ("3", "want an object with a list gpus"),
        ('[{"gpus": []}]', "entry 0: '' is no node name"),
        ('{"n1": {"gpus": 3}}', "node n1: want an object with a list gpus"),
        ('{"n[1-2]": {"gpus": []}}', "is no node name"),
        ('{"n1": {"gpus": [{"model": "T4"}]}}', "node n1 GPU 0: minor_number is None"),
        ('{"n1": {"gpus": [{"minor_number": true, "model": "T4"}]}}', "minor_number is True"),
        ('{"n1": {"gpus": [{"minor_number": 0}]}}', "node n1 GPU 0: model is None"),
        (json.dumps({"n1": described([3, 3])}), "two GPUs have minor number 3"),
        (json.dumps({"n1": described([0], mig_enabled=True)}), "node n1 GPU 0: MIG is enabled"),
    ],
)
def test_refuses_what_it_cannot_use(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "all.json").write_text(text)
    with pytest.raises(InventoryError, match=r"all\.json|no node") as refused:
        inventory.load([tmp_path / "all.json"])
    assert problem in str(refused.value)


def test_names_all_problems_at_once(tmp_path: Path) -> None:
    document = {"n1": described([0], mig_enabled=True), "n2": described([5, 5])}
    (tmp_path / "all.json").write_text(json.dumps(document))
    with pytest.raises(InventoryError) as refused:
        inventory.load([tmp_path / "all.json", tmp_path / "gone.json"])
    assert len(refused.value.problems) == 3


def test_a_node_may_be_described_once(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps({"node": "n1", **described([0])}))
    with pytest.raises(InventoryError, match="n1 is described twice"):
        inventory.load([tmp_path / "a.json", tmp_path / "b.json"])


@pytest.mark.parametrize(
    ("minor", "is_valid"), [(0, True), (1023, True), (1024, False), (-1, False)]
)
def test_minor_numbers_have_bounds(tmp_path: Path, minor: int, is_valid: bool) -> None:
    (tmp_path / "n1.json").write_text(json.dumps(described([minor])))
    if is_valid:
        assert inventory.load([tmp_path / "n1.json"]) == (node("n1", (minor,)),)
    else:
        with pytest.raises(InventoryError, match="0 to 1023"):
            inventory.load([tmp_path / "n1.json"])


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "n1.json").write_bytes(b"\xff\xfe")
    with pytest.raises(InventoryError, match=r"n1\.json: not UTF-8 text"):
        inventory.load([tmp_path / "n1.json"])


def test_the_key_node_takes_precedence_over_the_file_name(tmp_path: Path) -> None:
    (tmp_path / "topology.json").write_text(json.dumps({"node": "n7", **described([0])}))
    assert [one.node for one in inventory.load([tmp_path / "topology.json"])] == ["n7"]


def test_nodes_come_by_name(tmp_path: Path) -> None:
    names = ("n3", "n1", "n2")
    for name in names:
        (tmp_path / f"{name}.json").write_text(json.dumps(described([0])))
    loaded = inventory.load(tmp_path / f"{name}.json" for name in names)
    assert [one.node for one in loaded] == ["n1", "n2", "n3"]
