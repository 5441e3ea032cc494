"""docs/policy.md against the code it describes."""

import json
import re
from pathlib import Path

import pytest

from roost_engine.cluster.features import COLUMNS, HEURISTIC_WEIGHTS, SCHEMA_VERSION
from roost_formats.models.manifest import manifest_path
from roost_formats.models.score import BUILTIN_MODEL
from roost_formats.models.signature import SCORE

PAGE = (Path(__file__).parents[3] / "docs" / "policy.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| (-?[\d.]+) \|", PAGE, re.MULTILINE)


def test_lists_exactly_the_columns_in_their_order() -> None:
    assert tuple(name for name, _ in ROWS) == COLUMNS
    assert f"schema version {SCHEMA_VERSION}" in PAGE


def test_tells_the_heuristics_weights() -> None:
    assert [float(weight) for _, weight in ROWS] == pytest.approx(HEURISTIC_WEIGHTS.tolist())


def test_names_every_allowed_operator_and_limit() -> None:
    *first, last = sorted(SCORE.allowed_operators)
    sentence = f"{', '.join(first)} and {last} are allowed"
    text = " ".join(PAGE.split())
    assert sentence in text
    assert f"at most {SCORE.limits.model_bytes // 10**6} MB" in text
    assert f"{SCORE.limits.dimension:,} by {SCORE.limits.dimension:,}" in text
    assert f"longer than {SCORE.budget.answer_s * 1000:g} ms" in text


def test_model_card_tells_the_shipped_models_figures() -> None:
    body = json.loads(manifest_path(BUILTIN_MODEL).read_text(encoding="utf-8"))
    card = body["card"]
    assert f"`{card['training_command']}`" in PAGE
    assert f"{card['held_out']['group_count']:,} groups" in PAGE
    assert f"{card['hyper_parameters']['steps']:,} steps" in PAGE
    assert f"{card['held_out']['pair_frac']:.4%}".replace("%", " %") in PAGE
    assert f"{card['held_out']['worst_error']:.5f}" in PAGE
    assert card["held_out"]["choice_frac"] == 1.0
