import json
from pathlib import Path

import numpy as np
import pytest
from tests.formats.models.quantile_kind import QUANTILES

from roost_engine.cluster.features import COLUMNS, SCHEMA_VERSION
from roost_engine.domain.errors import PolicyError
from roost_formats.models.manifest import Manifest, manifest_path
from roost_formats.models.score import BUILTIN_MODEL
from roost_formats.models.signature import INT64, ORDER, SCORE, Budget, Signature, Tensor

EDGES = Signature(
    kind="edges",
    title="an edge policy",
    schema_version=4,
    batch=("edge",),
    inputs=(Tensor(name="ends", sizes=("edge", 2), dtype=INT64),),
    outputs=(Tensor(name="worth", sizes=("edge",)),),
    canary_tolerance=0.0,
    budget=Budget(answer_s=1.0),
)


def manifest_of() -> Manifest:
    return Manifest(
        kind=QUANTILES.kind,
        schema_version=1,
        columns={"features": ("gpus", "limit_s"), "quantiles": ("p50",)},
        sha256="0f" * 32,
        size_bytes=7,
        canary_inputs={"features": np.array([[0.1, 2e-7], [1 / 3, 1e30]], np.float32)},
        canary_outputs={"quantiles": np.array([[7.1], [8.25]], np.float32)},
        card={"name": "test", "seed": 0},
    )


def test_what_is_written_is_read_back() -> None:
    written = manifest_of()
    read = Manifest.from_json(written.to_json(), QUANTILES)
    for name in ("kind", "schema_version", "columns", "sha256", "size_bytes", "card"):
        assert getattr(read, name) == getattr(written, name)
    np.testing.assert_array_equal(
        read.canary_inputs["features"], written.canary_inputs["features"], strict=True
    )
    np.testing.assert_array_equal(
        read.canary_outputs["quantiles"], written.canary_outputs["quantiles"], strict=True
    )


def test_floats_are_written_with_few_digits() -> None:
    canary = json.loads(manifest_of().to_json())["canary"]
    assert canary["inputs"]["features"] == [[0.1, 2e-07], [0.33333334, 1e30]]


def test_writes_format_2_with_the_kind() -> None:
    body = json.loads(manifest_of().to_json())
    assert (body["format"], body["kind"]) == (2, "quantiles")


def test_whole_numbers_stay_whole() -> None:
    manifest = Manifest(
        kind="edges",
        schema_version=4,
        columns={},
        sha256="0f" * 32,
        size_bytes=7,
        canary_inputs={"ends": np.array([[2**53 + 1, 0]])},
        canary_outputs={"worth": np.array([1.0], np.float32)},
        card={},
    )
    read = Manifest.from_json(manifest.to_json(), EDGES)
    assert read.canary_inputs["ends"].dtype == INT64
    assert read.canary_inputs["ends"].tolist() == [[2**53 + 1, 0]]


@pytest.mark.parametrize(
    "ends", [[[0.5, 1]], [[True, False]], [["1", "2"]], [[1, 2], [3]], [[2**64, 0]]]
)
def test_fractions_are_no_whole_numbers(ends: object) -> None:
    body = {
        "format": 2,
        "kind": "edges",
        "schema_version": 4,
        "columns": {},
        "sha256": "",
        "size_bytes": 0,
        "card": {},
        "canary": {"inputs": {"ends": ends}, "outputs": {"worth": [1.0]}},
    }
    with pytest.raises(PolicyError, match="'ends' is not a table of whole numbers"):
        Manifest.from_json(json.dumps(body), EDGES)


def test_reads_the_shipped_manifest_of_format_1() -> None:
    text = manifest_path(BUILTIN_MODEL).read_text(encoding="utf-8")
    assert json.loads(text)["format"] == 1
    manifest = Manifest.from_json(text, SCORE)
    assert (manifest.kind, manifest.schema_version) == ("score", SCHEMA_VERSION)
    assert manifest.columns == {"features": COLUMNS}
    assert manifest.canary_inputs["features"].shape == (16, len(COLUMNS))
    assert manifest.canary_outputs["score"].shape == (16,)


def test_a_manifest_without_a_kind_is_a_score_policys() -> None:
    body = json.loads(manifest_of().to_json())
    del body["kind"]
    with pytest.raises(PolicyError, match="the model is of kind 'score'; want 'quantiles'"):
        Manifest.from_json(json.dumps(body), QUANTILES)


def test_format_1_knows_no_other_kind() -> None:
    body = json.loads(manifest_path(BUILTIN_MODEL).read_text(encoding="utf-8"))
    with pytest.raises(PolicyError, match="of kind 'order' in format 1, which knows only 'score'"):
        Manifest.from_json(json.dumps(body | {"kind": "order"}), ORDER)
    assert Manifest.from_json(json.dumps(body | {"kind": "score"}), SCORE).kind == "score"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", 3, "has format 3; this daemon reads 1 and 2"),
        ("format", True, "'format' is not a whole number"),
        ("kind", 1, "'kind' is not a text"),
        ("kind", "score", "the model is of kind 'score'; want 'quantiles'"),
        ("columns", ["gpus"], "'columns' is not a mapping"),
        ("columns", {"features": "gpus"}, "'features' is not a list"),
        ("columns", {"features": [1]}, "'features' is not a text"),
        ("card", [], "'card' is not a mapping"),
        ("canary", {"inputs": {"features": [[1]]}}, "no entry 'outputs'"),
        ("canary", {"inputs": [], "outputs": {}}, "'inputs' is not a mapping"),
        ("canary", {"inputs": {}, "outputs": {}}, "no entry 'features'"),
        (
            "canary",
            {"inputs": {"features": [[1]]}, "outputs": {"quantiles": [[1e39]]}},
            "'quantiles' holds NaN or infinity",
        ),
    ],
)
def test_refuses_damaged_entries(key: str, value: object, message: str) -> None:
    body = json.loads(manifest_of().to_json())
    with pytest.raises(PolicyError, match=message):
        Manifest.from_json(json.dumps(body | {key: value}), QUANTILES)


def test_refuses_missing_entries() -> None:
    whole = json.loads(manifest_of().to_json())
    for key in whole.keys() - {"kind"}:
        body = {name: value for name, value in whole.items() if name != key}
        with pytest.raises(PolicyError, match=f"the manifest has no entry '{key}'"):
            Manifest.from_json(json.dumps(body), QUANTILES)


def test_stands_beside_the_model() -> None:
    assert manifest_path(Path("/etc/roost/order.onnx")) == Path("/etc/roost/order.json")
