"""Loading models of other kinds than score; test_score.py covers that kind from end to end."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.formats.models.quantile_kind import QUANTILES

from roost_engine.domain.errors import PolicyError
from roost_formats.models.checked_model import CheckedModel
from roost_formats.models.loader import load, load_model
from roost_formats.models.manifest import manifest_path
from roost_formats.models.score import load_score_policy
from roost_formats.models.signature import KINDS, ORDER, Limits, Tensor
from roost_formats.testing.onnx_models import (
    ModelParts,
    attribute,
    doubling_parts,
    install_kind,
    install_model,
    operation,
    order_parts,
    tensor,
    value_info,
)
from roost_formats.testing.sessions import FakeClock

JOBS = np.array([[5, 1, 9], [2, 2, 9]], np.float32)
CLUSTER = np.array([10, 99], np.float32)
ORDER_COLUMNS = {"jobs": ("wait_s", "gpus", "user"), "cluster": ("free_frac", "queue")}


def install_order(folder: Path, parts: ModelParts | None = None, **changes: object) -> Path:
    """An order policy that ranks JOBS 40 and 0."""
    entries = {
        "signature": ORDER,
        "columns": ORDER_COLUMNS,
        "canary_inputs": {"jobs": JOBS, "cluster": CLUSTER},
        "canary_outputs": {"rank": np.array([40, 0], np.float32)},
    }
    model = (parts or order_parts()).encode()
    return install_kind(folder, model, **entries | changes)  # type: ignore[arg-type]


def quantile_parts() -> ModelParts:
    """Two features to three quantiles that never fall: each adds a gain of at least zero."""
    return ModelParts(
        nodes=[
            operation("Gemm", ["features", "steps"], ["gains"], attribute("alpha", 1.0)),
            operation("Relu", ["gains"], ["rises"]),
            operation("MatMul", ["rises", "sums"], ["quantiles"]),
        ],
        weights=[
            tensor("steps", np.array([[1, 0, 2], [0, 1, 0]], np.float32)),
            tensor("sums", np.triu(np.ones((3, 3), np.float32))),
        ],
        inputs=[value_info("features", ["n", 2])],
        outputs=[value_info("quantiles", ["n", 3])],
    )


def install_quantiles(folder: Path, **changes: object) -> Path:
    entries = {
        "signature": QUANTILES,
        "columns": {"features": ("gpus", "limit_s"), "quantiles": ("p10", "p50", "p90")},
        "canary_inputs": {"features": np.array([[1, 2], [3, -4]], np.float32)},
        "canary_outputs": {"quantiles": np.array([[1, 3, 5], [3, 3, 9]], np.float32)},
    }
    return install_kind(folder, quantile_parts().encode(), **entries | changes)  # type: ignore[arg-type]


def load_order(path: Path) -> CheckedModel:
    return load_model(path, "order", FakeClock())


def test_loads_an_order_policy(tmp_path: Path) -> None:
    model = load_order(install_order(tmp_path))
    answers = model.ask({"jobs": JOBS[::-1], "cluster": CLUSTER})
    assert answers["rank"].tolist() == [0.0, 40.0]
    assert model.columns == ORDER_COLUMNS
    assert [t.sizes for t in model.signature.tensors] == [("job", 3), (2,), ("job",)]


@pytest.fixture
def quantiles_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, QUANTILES.kind, QUANTILES)


@pytest.mark.usefixtures("quantiles_are_known")
def test_loads_a_model_that_names_its_outputs_columns(tmp_path: Path) -> None:
    model = load_model(install_quantiles(tmp_path), "quantiles", FakeClock())
    answers = model.ask({"features": np.array([[0, 1]], np.float32)})
    assert answers["quantiles"].tolist() == [[0.0, 1.0, 1.0]]
    assert model.columns["quantiles"] == ("p10", "p50", "p90")


def test_a_loaded_model_is_asked_with_the_sizes_of_its_file(tmp_path: Path) -> None:
    model = load_order(install_order(tmp_path))
    with pytest.raises(PolicyError, match=r"cluster is float32\[3\]; want float32\[2\]"):
        model.ask({"jobs": JOBS, "cluster": np.zeros(3, np.float32)})


def test_unknown_kind(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no kind of model is named 'door'"):
        load_model(install_order(tmp_path), "door", FakeClock())


@pytest.mark.parametrize("kind", ["score", "runtimes"])
def test_model_of_another_kind(tmp_path: Path, kind: str) -> None:
    path = install_order(tmp_path)
    with pytest.raises(PolicyError, match=f"the model is of kind 'order'; want '{kind}'"):
        load_model(path, kind, FakeClock())


def test_daemon_refuses_an_order_policy_as_its_score_policy(tmp_path: Path) -> None:
    policy, fault = load_score_policy(str(install_order(tmp_path)))
    assert policy.name == "heuristic"
    assert "the model is of kind 'order'; want 'score'" in (fault or "")


def spoiled_order(**changes: list[bytes]) -> ModelParts:
    return replace(order_parts(), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            spoiled_order(inputs=[value_info("jobs", ["n", 3])]),
            "the model's inputs are float32 jobs[?, 3];"
            " want float32 jobs[?, feature], float32 cluster[cluster_feature]",
        ),
        (
            spoiled_order(inputs=[value_info("jobs", ["n", "m"]), value_info("cluster", [2])]),
            "inputs are float32 jobs[?, ?], float32 cluster[2]",
        ),
        (
            spoiled_order(inputs=[value_info("jobs", [4, 3]), value_info("cluster", [2])]),
            "inputs are float32 jobs[4, 3], float32 cluster[2]",
        ),
        (
            spoiled_order(inputs=[value_info("jobs", ["n", 1025]), value_info("cluster", [2])]),
            "inputs are float32 jobs[?, 1025]",
        ),
        (
            spoiled_order(inputs=[value_info("jobs", ["n", 0]), value_info("cluster", [2])]),
            "inputs are float32 jobs[?, 0]",
        ),
        (
            spoiled_order(inputs=[value_info("jobs", ["n", 3], 7), value_info("cluster", [2])]),
            "inputs are int64 jobs[?, 3]",
        ),
        (
            spoiled_order(inputs=[*[value_info("jobs", ["n", 3])] * 2]),
            "inputs are float32 jobs[?, 3], float32 jobs[?, 3]",
        ),
        (
            spoiled_order(outputs=[value_info("rank", ["n", 2])]),
            "outputs are float32 rank[?, 2]; want float32 rank[?]",
        ),
        (
            spoiled_order(outputs=[value_info("rank", ["n"]), value_info("gains", [3])]),
            "outputs are float32 rank[?], float32 gains[3]; want float32 rank[?]",
        ),
    ],
)
def test_other_ends_than_the_signatures(tmp_path: Path, parts: ModelParts, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load_order(install_order(tmp_path, parts))
    assert message in str(caught.value)


def test_inputs_may_stand_in_any_order(tmp_path: Path) -> None:
    parts = order_parts()
    parts.inputs.reverse()
    assert load_order(install_order(tmp_path, parts)).name.startswith("onnx:")


def test_one_symbol_has_one_size_in_all_inputs(tmp_path: Path) -> None:
    shared = replace(
        ORDER,
        inputs=(ORDER.inputs[0], Tensor(name="cluster", sizes=("feature",))),
    )
    with pytest.raises(PolicyError, match=r"inputs are float32 jobs\[\?, 3\], float32 cluster\[2"):
        load(install_order(tmp_path), shared, FakeClock())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {**ORDER_COLUMNS, "jobs": ("wait_s",)},
            r"names the columns of jobs \(1\), cluster \(2\); the model has jobs \(3\), cluster",
        ),
        ({"jobs": ORDER_COLUMNS["jobs"]}, r"columns of jobs \(3\); the model has jobs \(3\), clu"),
        ({**ORDER_COLUMNS, "rank": ("rank",)}, r"rank \(1\); the model has jobs \(3\), cluster"),
        ({}, r"columns of nothing; the model has jobs \(3\)"),
    ],
)
def test_columns_that_do_not_fit_the_model(
    tmp_path: Path, columns: dict[str, tuple[str, ...]], message: str
) -> None:
    with pytest.raises(PolicyError, match=message):
        load_order(install_order(tmp_path, columns=columns))


def test_other_schema_version(tmp_path: Path) -> None:
    path = install_order(tmp_path, signature=replace(ORDER, schema_version=2))
    with pytest.raises(
        PolicyError, match="trained for schema 2; this daemon writes schema 1; train it again"
    ):
        load_order(path)


def test_columns_that_the_signature_prescribes(tmp_path: Path) -> None:
    jobs = replace(ORDER.inputs[0], sizes=("job", 3), columns=("gpus", "wait_s", "user"))
    prescribing = replace(ORDER, inputs=(jobs, ORDER.inputs[1]))
    with pytest.raises(PolicyError, match="schema 1 with 3 columns; this daemon writes schema 1"):
        load(install_order(tmp_path), prescribing, FakeClock())
    columns = {**ORDER_COLUMNS, "jobs": jobs.columns}
    model = load(install_order(tmp_path, columns=columns), prescribing, FakeClock())
    assert model.columns["jobs"] == jobs.columns


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = install_order(tmp_path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(PolicyError, match=r"policy\.onnx is a pipe; want a file"):
        load(path, ORDER, FakeClock())


def test_limits_of_the_kind(tmp_path: Path) -> None:
    path = install_order(tmp_path)
    small = replace(ORDER, limits=Limits(model_bytes=100))
    with pytest.raises(PolicyError, match=r"policy\.onnx is larger than 100 bytes"):
        load(path, small, FakeClock())
    narrow = replace(ORDER, limits=Limits(intermediate_elements=6))
    with pytest.raises(PolicyError, match="the model holds 7 numbers for one job; 6 are allowed"):
        load(path, narrow, FakeClock())
    load(path, replace(ORDER, limits=Limits(intermediate_elements=7)), FakeClock())


@pytest.mark.parametrize("axis", [0, 1])
def test_a_model_that_doubles_a_value_never_reaches_the_runtime(tmp_path: Path, axis: int) -> None:
    path = install_model(tmp_path, doubling_parts(24, axis).encode())
    policy, fault = load_score_policy(str(path))
    assert policy.name == "heuristic"
    assert "'doubled10' holds 18,432 numbers for one candidate; 16,384 are allowed" in (fault or "")


def test_a_model_that_doubles_a_value_a_little_loads(tmp_path: Path) -> None:
    assert load_score_policy(str(install_model(tmp_path, doubling_parts(3, 0).encode())))[1] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"canary_outputs": {"rank": np.array([40, 1], np.float32)}}, "is off by 1 on its manif"),
        ({"canary_outputs": {"rank": np.array([40], np.float32)}}, "row of jobs for each rank"),
        ({"canary_outputs": {"rank": np.array([[40], [0]], np.float32)}}, "row of jobs for each"),
        ({"canary_inputs": {"jobs": JOBS[:0], "cluster": CLUSTER}}, "row of jobs for each rank"),
        ({"canary_inputs": {"jobs": JOBS, "cluster": CLUSTER[:1]}}, r"cluster is float32\[1\]"),
        ({"canary_inputs": {"jobs": JOBS[:, :2], "cluster": CLUSTER}}, r"jobs are float32\[2, 2"),
        ({"canary_inputs": {"jobs": JOBS}}, "no entry 'cluster'"),
    ],
)
def test_canaries_that_fail(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    path = install_order(tmp_path, None, **changes)
    with pytest.raises(PolicyError, match=message):
        load_order(path)


@pytest.mark.usefixtures("quantiles_are_known")
def test_canary_of_another_width_than_the_output(tmp_path: Path) -> None:
    narrow = {"quantiles": np.zeros((2, 2), np.float32)}
    with pytest.raises(PolicyError, match="a row of features for each quantiles"):
        load_model(install_quantiles(tmp_path, canary_outputs=narrow), "quantiles", FakeClock())


def test_canary_within_the_kinds_tolerance(tmp_path: Path) -> None:
    near = {"rank": np.array([40.00009, 0], np.float32)}
    load_order(install_order(tmp_path, canary_outputs=near))
    with pytest.raises(PolicyError, match=r"0\.0001 is allowed"):
        load_order(
            install_order(tmp_path, canary_outputs={"rank": np.array([40.0002, 0], np.float32)})
        )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sha256", "00" * 32, "its manifest says 000000000000…"),
        ("size_bytes", 5, "and 5; install both from one training"),
        ("canary", {"inputs": {}, "outputs": {}}, "no entry 'jobs'"),
    ],
)
def test_damaged_manifests(tmp_path: Path, key: str, value: object, message: str) -> None:
    path = install_order(tmp_path)
    body = json.loads(manifest_path(path).read_text(encoding="utf-8"))
    manifest_path(path).write_text(json.dumps(body | {key: value}), encoding="utf-8")
    with pytest.raises(PolicyError, match=message):
        load_order(path)
