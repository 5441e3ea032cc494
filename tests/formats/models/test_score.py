import contextlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from roost_engine.cluster.features import COLUMN, COLUMNS, HEURISTIC_WEIGHTS
from roost_engine.domain.errors import PolicyError
from roost_engine.scoring.heuristic import HeuristicScore
from roost_formats.models.checked_model import Arrays, CheckedModel, Session
from roost_formats.models.loader import check_graph, open_session
from roost_formats.models.manifest import manifest_path
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.score import (
    BUILTIN_MODEL,
    INPUT_NAME,
    OUTPUT_NAME,
    OnnxScore,
    load_onnx_score,
    load_score_policy,
)
from roost_formats.models.signature import SCORE, Signature
from roost_formats.testing.onnx_models import (
    ModelParts,
    attribute,
    install_model,
    operation,
    tensor,
    value_info,
)
from roost_formats.testing.sessions import (
    FailingSession,
    FakeClock,
    FakeSession,
    NanSession,
    ShortSession,
    SlowSession,
)

SHA256 = "0123456789abcdef" * 4
RNG_SEED = 7


def heuristic(inputs: Arrays) -> Arrays:
    return {OUTPUT_NAME: HeuristicScore().score(inputs[INPUT_NAME])}


def score_of(
    session: Session, clock: FakeClock | None = None, signature: Signature = SCORE
) -> OnnxScore:
    """The adapter over a session of the test's own."""
    columns = {INPUT_NAME: COLUMNS}
    return OnnxScore(
        CheckedModel(session, signature, sha256=SHA256, columns=columns, clock=clock or FakeClock())
    )


def features_of(count: int, seed: int = RNG_SEED) -> NDArray[np.float32]:
    return np.random.default_rng(seed).random((count, len(COLUMNS))).astype(np.float32)


@pytest.fixture(scope="module")
def builtin() -> OnnxScore:
    return load_onnx_score(BUILTIN_MODEL, lambda: 0.0)


def test_shipped_model_loads_under_its_hash() -> None:
    policy, fault = load_score_policy("builtin")
    manifest = json.loads(manifest_path(BUILTIN_MODEL).read_text())
    assert fault is None
    assert policy.name == f"onnx:{manifest['sha256'][:12]}"


def test_shipped_card_says_how_it_was_made() -> None:
    card = json.loads(manifest_path(BUILTIN_MODEL).read_text())["card"]
    assert card["training_command"].startswith("roost-train distil --seed")
    assert set(card["versions"]) >= {"torch", "onnx", "onnxruntime", "numpy"}
    assert card["held_out"]["choice_frac"] >= 0.999
    assert card["held_out"]["clear_choice_frac"] == 1.0


def test_shipped_model_chooses_as_the_heuristic_does(builtin: OnnxScore) -> None:
    rng = np.random.default_rng(RNG_SEED)
    agreed, clear = 0, 0
    for _ in range(2000):
        features = rng.random((int(rng.integers(2, 65)), len(COLUMNS))).astype(np.float32)
        exact = (features * HEURISTIC_WEIGHTS.astype(np.float64)).sum(axis=-1)
        lost = exact.max() - exact[builtin.score(features).argmax()]
        agreed += lost < 1e-6
        if np.diff(np.sort(exact)[-2:])[0] > 1e-3:
            clear += 1
            assert lost == 0.0
    assert agreed >= 0.999 * 2000
    assert clear > 1000


@pytest.mark.parametrize("name", [c for c in COLUMNS if HEURISTIC_WEIGHTS[COLUMN[c]] < 0])
def test_among_equals_the_smaller_cost_wins(builtin: OnnxScore, name: str) -> None:
    rng = np.random.default_rng(RNG_SEED)
    for _ in range(200):
        features = np.tile(rng.random(len(COLUMNS)).astype(np.float32), (8, 1))
        order = rng.permutation(8)
        features[:, COLUMN[name]] = np.float32(rng.uniform(0, 0.9)) + order * np.float32(1e-3)
        assert order[builtin.score(features).argmax()] == 0


def test_order_of_candidates_does_not_matter(builtin: OnnxScore) -> None:
    features = features_of(61)
    shuffled = np.random.default_rng(1).permutation(len(features))
    np.testing.assert_array_equal(
        builtin.score(features[shuffled]), builtin.score(features)[shuffled]
    )


@pytest.mark.parametrize("count", [2, 3, 7, 8, 64, 1000])
def test_equal_candidates_get_equal_scores(builtin: OnnxScore, count: int) -> None:
    scores = builtin.score(np.tile(features_of(1), (count, 1)))
    assert len(set(scores.tolist())) == 1


def test_no_candidates_no_scores(builtin: OnnxScore) -> None:
    assert builtin.score(np.empty((0, len(COLUMNS)), np.float32)).shape == (0,)


def test_a_column_of_scores_is_flattened() -> None:
    answer = np.array([[1.0], [2.0]], np.float32)
    policy = score_of(FakeSession(lambda _: {OUTPUT_NAME: answer}))
    assert policy.score(features_of(2)).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (features_of(2).astype(np.float64), r"float64\[2, 18\]"),
        (features_of(2)[:, :-1], r"float32\[2, 17\]"),
        (features_of(2)[0], r"float32\[18\]"),
        (np.full((2, 18), np.nan, np.float32), "features hold NaN"),
        (np.full((2, 18), np.inf, np.float32), "features hold NaN or infinity"),
    ],
)
def test_refuses_bad_features(features: NDArray[np.float32], message: str) -> None:
    session = FakeSession(heuristic)
    with pytest.raises(PolicyError, match=message):
        score_of(session).score(features)
    assert not session.asked


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.array([1.0, np.nan], np.float32), "answered NaN"),
        (np.array([1.0, np.inf], np.float32), "answered NaN or infinity"),
        (np.zeros(3, np.float32), r"answered float32\[3\] to 2 candidates"),
        (np.zeros((1, 2), np.float32), r"answered float32\[1, 2\]"),
        (np.zeros(2, np.float64), "answered float64"),
    ],
)
def test_refuses_bad_answers(answer: NDArray[np.float32], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        score_of(FakeSession(lambda _: {OUTPUT_NAME: answer})).score(features_of(2))


@pytest.mark.parametrize(
    ("session", "message"),
    [
        (NanSession(FakeSession(heuristic)), "answered NaN or infinity"),
        (NanSession(FakeSession(heuristic), np.inf), "answered NaN or infinity"),
        (ShortSession(FakeSession(heuristic)), r"answered float32\[1\] to 2 candidates"),
        (FailingSession(), "onnxruntime failed"),
    ],
)
def test_refuses_answers_of_broken_models(session: Session, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        score_of(session).score(features_of(2))


def test_slow_answers_in_a_row_take_the_model_out_of_service() -> None:
    clock, session = FakeClock(), FakeSession(heuristic)
    policy = score_of(SlowSession(session, clock, 0.02, 0.02, 0.02), clock)
    for _ in range(2):
        policy.score(features_of(2))
    with pytest.raises(PolicyError, match=r"took 20.0 ms, more than 10 ms 3 times in a row"):
        policy.score(features_of(2))
    with pytest.raises(PolicyError, match="out of service for 60 s: it was too slow"):
        policy.score(features_of(2))
    assert len(session.asked) == 3


def test_a_quick_answer_between_slow_ones_forgives() -> None:
    clock = FakeClock()
    times = (0.02, 0.02, 0.001, 0.02, 0.02, 0.001)
    policy = score_of(SlowSession(FakeSession(heuristic), clock, *times), clock)
    for _ in times:
        assert len(policy.score(features_of(2))) == 2


def test_rested_model_gets_one_try() -> None:
    clock = FakeClock()
    session = SlowSession(FakeSession(heuristic), clock, 0.02, 0.02, 0.02)
    policy = score_of(session, clock)
    for _ in range(2):
        policy.score(features_of(2))
    with pytest.raises(PolicyError, match="times in a row"):
        policy.score(features_of(2))
    clock.now_s += 60
    session.plan(0.02)
    with pytest.raises(PolicyError, match="4 times in a row"):
        policy.score(features_of(2))
    clock.now_s += 61
    assert len(policy.score(features_of(2))) == 2


def test_loads_a_sites_own_model(tmp_path: Path) -> None:
    policy, fault = load_score_policy(str(install_model(tmp_path, ModelParts().encode())))
    assert fault is None
    features = features_of(9)
    np.testing.assert_allclose(
        policy.score(features), HeuristicScore().score(features), rtol=0, atol=1e-5
    )


def test_none_is_the_heuristic_and_no_fault() -> None:
    policy, fault = load_score_policy("none")
    assert (policy.name, fault) == ("heuristic", None)


def test_heuristic_only_daemon_does_not_load_the_runtime() -> None:
    code = (
        "import sys; from roost_formats.models.score import load_score_policy;"
        "load_score_policy('none'); sys.exit('onnxruntime' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_missing_runtime_is_a_fault_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    for module in ("onnx_session", "onnx_runtime"):
        monkeypatch.delitem(sys.modules, f"roost_formats.models.{module}", raising=False)
    policy, fault = load_score_policy("builtin")
    assert policy.name == "heuristic"
    assert fault is not None
    assert "onnxruntime cannot be imported" in fault


def assert_falls_back(path: Path, message: str) -> None:
    policy, fault = load_score_policy(str(path))
    assert policy.name == "heuristic"
    assert fault is not None
    assert fault.startswith(str(path))
    assert message in fault
    assert "\n" not in fault
    assert len(policy.score(features_of(3))) == 3


def test_missing_file(tmp_path: Path) -> None:
    assert_falls_back(tmp_path / "policy.onnx", "policy.json cannot be read: No such file")


def test_missing_model_beside_its_manifest(tmp_path: Path) -> None:
    path = install_model(tmp_path, ModelParts().encode())
    path.unlink()
    assert_falls_back(path, "policy.onnx cannot be read: No such file")


def test_folder_in_place_of_a_model(tmp_path: Path) -> None:
    path = install_model(tmp_path, ModelParts().encode())
    path.unlink()
    path.mkdir()
    assert_falls_back(path, "policy.onnx cannot be read: Is a directory")


def test_oversized_file_is_not_read_whole(tmp_path: Path) -> None:
    path = install_model(tmp_path, ModelParts().encode())
    with path.open("wb") as file:
        file.truncate(2_000_000_000)  # sparse: takes no space on disk
    assert_falls_back(path, f"larger than {SCORE.limits.model_bytes} bytes")


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
def test_truncated_file(tmp_path: Path, kept: int) -> None:
    path = install_model(tmp_path, ModelParts().encode())
    path.write_bytes(path.read_bytes()[:kept])
    assert_falls_back(path, "its manifest says")


def test_file_swapped_after_the_manifest_was_written(tmp_path: Path) -> None:
    path = install_model(tmp_path, ModelParts().encode())
    other = ModelParts(weights=[tensor("weight", -HEURISTIC_WEIGHTS[:, None])])
    path.write_bytes(other.encode())
    assert_falls_back(path, "install both from one training")


def test_file_swapped_after_loading_changes_nothing(tmp_path: Path) -> None:
    path = install_model(tmp_path, ModelParts().encode())
    policy, _ = load_score_policy(str(path))
    before = policy.score(features_of(5))
    path.write_bytes(b"something else")
    np.testing.assert_array_equal(policy.score(features_of(5)), before)


def test_other_schema_version(tmp_path: Path) -> None:
    path = install_model(tmp_path, ModelParts().encode(), schema_version=99)
    assert_falls_back(path, "trained for schema 99")


def test_columns_in_another_order(tmp_path: Path) -> None:
    path = install_model(tmp_path, ModelParts().encode(), columns=COLUMNS[::-1])
    assert_falls_back(path, "train it again")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (ModelParts(nodes=[operation("If", ["features"], ["score"])]), "operator 'If'"),
        (
            ModelParts(inputs=[value_info("features", ["candidate", 17])]),
            "inputs are float32 features[?, 17]; want float32 features[?, 18]",
        ),
        (
            ModelParts(inputs=[value_info("features", [4, 18])]),
            "inputs are float32 features[4, 18]",
        ),
        (ModelParts(inputs=[value_info("x", ["candidate", 18])]), "inputs are float32 x[?, 18]"),
        (
            ModelParts(inputs=[value_info("features", ["candidate", 18], 11)]),
            "inputs are other type features",
        ),
        (ModelParts(inputs=[]), "inputs are ; want"),
        (
            ModelParts(outputs=[value_info("score", ["candidate", 2])]),
            "outputs are float32 score[?, 2]",
        ),
        (ModelParts(outputs=[]), "outputs are ; want"),
        (
            ModelParts(weights=[tensor("weight", np.zeros((17, 1), np.float32))]),
            "the shape of 'score' cannot be inferred: MatMul of [candidate, 18] and [17, 1]:"
            " inner sizes 18 and 17 differ",
        ),
        (
            ModelParts(nodes=[operation("MatMul", ["features", "absent"], ["score"])]),
            "MatMul reads 'absent', which nothing before it gives",
        ),
        (
            ModelParts(
                nodes=[operation("MatMul", ["features", "weight"], ["score"], attribute("beta", 1))]
            ),
            "onnxruntime refuses the model",
        ),
    ],
)
def test_unfit_models(tmp_path: Path, parts: ModelParts, message: str) -> None:
    policy, fault = load_score_policy(str(install_model(tmp_path, parts.encode())))
    assert policy.name == "heuristic"
    assert message in (fault or "")


def test_damaged_models_raise_nothing_but_policy_errors() -> None:
    model, features = BUILTIN_MODEL.read_bytes(), features_of(8)
    rng = np.random.default_rng(RNG_SEED)
    ran = 0
    for _ in range(300):
        damaged = bytearray(model)
        for position in rng.integers(len(model) - 600, len(model), 2):  # past most of the weights
            damaged[position] = rng.integers(256)
        with contextlib.suppress(PolicyError):
            check_graph(read_onnx(bytes(damaged), SCORE), SCORE)
            score_of(open_session(bytes(damaged), SCORE)).score(features)
            ran += 1
    assert 0 < ran < 300


def test_answer_that_is_not_finite_fails_the_canary(tmp_path: Path) -> None:
    zero = tensor("zero", np.zeros(1, np.float32))
    nodes = [
        operation("MatMul", ["features", "weight"], ["raw"]),
        operation("Div", ["raw", "zero"], ["score"]),
    ]
    parts = ModelParts(nodes=nodes)
    parts.weights.append(zero)
    assert_falls_back(install_model(tmp_path, parts.encode()), "answered NaN or infinity")


def test_model_that_answers_otherwise_than_its_manifest_says(tmp_path: Path) -> None:
    path = install_model(
        tmp_path, ModelParts().encode(), canary_scores=np.zeros(4, dtype=np.float32)
    )
    assert_falls_back(path, "on its manifest's canary batch")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", 3, "has format 3; this daemon reads 1 and 2"),
        ("kind", "order", "the manifest is of kind 'order' in format 1"),
        ("columns", "link_frac", "'columns' is not a list"),
        ("sha256", 5, "'sha256' is not a text"),
        ("size_bytes", "big", "'size_bytes' is not a whole number"),
        ("canary", [], "'canary' is not a mapping"),
        ("canary", {"features": [["x"]], "scores": [1]}, "not a table of numbers"),
        ("canary", {"features": [[1, 2], [3]], "scores": [1]}, "not a table of numbers"),
        ("canary", {"features": [[10**400]], "scores": [1]}, "not a table of numbers"),
        ("canary", {"features": [[1e39]], "scores": [1]}, "holds NaN or infinity"),
        ("canary", {"features": [], "scores": []}, "a row of features for each score"),
        ("canary", {"features": [[0.5] * 17], "scores": [1]}, "features are float32[1, 17]"),
        ("canary", {"scores": [1]}, "no entry 'features'"),
    ],
)
def test_damaged_manifests(tmp_path: Path, key: str, value: object, message: str) -> None:
    """Of format 1; test_loader.py has those of format 2."""
    path = install_model(tmp_path, ModelParts().encode())
    body = json.loads(manifest_path(path).read_text())
    canary = body.pop("canary")
    body |= {"format": 1, "columns": body["columns"][INPUT_NAME]}
    body["canary"] = {
        "features": canary["inputs"][INPUT_NAME],
        "scores": canary["outputs"][OUTPUT_NAME],
    }
    manifest_path(path).write_text(json.dumps(body))
    assert load_score_policy(str(path))[1] is None
    manifest_path(path).write_text(json.dumps(body | {key: value}))
    assert_falls_back(path, message)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_manifest_that_is_no_mapping(tmp_path: Path, content: bytes) -> None:
    path = install_model(tmp_path, ModelParts().encode())
    manifest_path(path).write_bytes(content)
    assert_falls_back(path, "manifest")
