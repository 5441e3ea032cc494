"""docs/models.md against the code it describes."""

import json
import re
from itertools import takewhile
from pathlib import Path

import pytest

from roost_engine.cluster.features import COLUMNS, HEURISTIC_WEIGHTS, SCHEMA_VERSION
from roost_formats.models.manifest import (
    FORMAT,
    MAX_MANIFEST_BYTES,
    READ_FORMATS,
    manifest_path,
)
from roost_formats.models.onnx_file import NEWEST_OPSET, OLDEST_OPSET
from roost_formats.models.score import BUILTIN_MODEL
from roost_formats.models.signature import FLOAT32, KINDS, Signature, Tensor
from roost_formats.testing.onnx_models import ModelParts, install_model

PAGE = (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| (-?[\d.]+) \|", PAGE, re.MULTILINE)


def test_lists_exactly_the_columns_in_their_order() -> None:
    assert tuple(name for name, _ in ROWS) == COLUMNS
    assert f"schema version {SCHEMA_VERSION}" in PAGE


def test_tells_the_heuristics_weights() -> None:
    assert [float(weight) for _, weight in ROWS] == pytest.approx(HEURISTIC_WEIGHTS.tolist())


def plain(value: float) -> str:
    return f"{value:.6f}".rstrip("0")


def kind_row(signature: Signature) -> tuple[str, ...]:
    """The cells of a kind's row in the table of kinds."""

    def tensors(of: tuple[Tensor, ...]) -> str:
        return ", ".join(f"`{t.name}` [{', '.join(map(str, t.sizes))}]" for t in of)

    return (
        f"`{signature.kind}`",
        tensors(signature.inputs),
        tensors(signature.outputs),
        str(signature.schema_version),
        ", ".join(signature.batch),
        f"{signature.limits.intermediate_elements:,}",
        f"{signature.budget.answer_s * 1000:g} ms",
        plain(signature.canary_tolerance),
    )


def rows_of(heading: str) -> list[tuple[str, ...]]:
    """The rows of the one table that begins with this line."""
    _, _, rest = PAGE.partition(f"\n{heading}\n")
    lines = takewhile(lambda line: line.startswith("|"), rest.splitlines()[1:])
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def meanings_of(heading: str) -> dict[str, str]:
    """A table of two columns."""
    return {row[0]: row[1] for row in rows_of(heading)}


def test_lists_exactly_the_kinds_with_their_signatures() -> None:
    heading = (
        "| Kind | Inputs | Outputs | Schema version | Batch | Intermediate numbers | Slow above"
        " | Canary tolerance |"
    )
    assert rows_of(heading) == [kind_row(signature) for signature in KINDS.values()]
    assert all(t.dtype == FLOAT32 for signature in KINDS.values() for t in signature.tensors)


def test_explains_every_kind() -> None:
    for kind in KINDS:
        assert f"\n* `{kind}` " in PAGE


@pytest.mark.parametrize("signature", KINDS.values(), ids=lambda signature: signature.kind)
def test_checks_name_the_operators_and_limits_of_every_kind(signature: Signature) -> None:
    checks = meanings_of("| Check | Holds for every kind |")
    *first, last = sorted(signature.allowed_operators)
    assert f"only {', '.join(first)} and {last} are allowed" in checks["Operators"]
    assert f"set {OLDEST_OPSET} to {NEWEST_OPSET}" in checks["Operators"]
    limits = signature.limits
    assert f"at most {limits.model_bytes // 10**6} MB" in checks["Size"]
    assert f"1 to {limits.node_count} operations" in checks["Content"]
    dimensions = " by ".join([f"{limits.dimension:,}"] * limits.rank)
    assert f"at most {dimensions}" in checks["Weights"]
    assert f"at most {limits.weight_elements:,}" in checks["Memory"]
    assert f"at most {MAX_MANIFEST_BYTES >> 20} MiB" in checks["Manifest"]
    assert f"format {' or '.join(map(str, READ_FORMATS))}," in checks["Manifest"]
    time = meanings_of("| Check | Holds for every call |")["Time"]
    assert signature.budget.slow_limit == 3
    assert time.startswith("three answers in a row")
    assert f"out of service for {signature.budget.out_of_service_s:g} s" in time


def test_lists_exactly_the_entries_of_a_manifest(tmp_path: Path) -> None:
    path = install_model(tmp_path, ModelParts().encode())
    body = json.loads(manifest_path(path).read_text(encoding="utf-8"))
    entries = meanings_of("| Entry | Meaning |")
    assert set(re.findall(r"`(\w+)`", " ".join(entries))) == body.keys()
    assert entries["`format`"].startswith(f"{FORMAT},")


def test_model_card_tells_the_shipped_models_figures() -> None:
    body = json.loads(manifest_path(BUILTIN_MODEL).read_text(encoding="utf-8"))
    card = body["card"]
    assert f"`{card['training_command']}`" in PAGE
    assert f"{card['held_out']['group_count']:,} groups" in PAGE
    assert f"{card['hyper_parameters']['steps']:,} steps" in PAGE
    assert f"{card['held_out']['pair_frac']:.4%}".replace("%", " %") in PAGE
    assert f"{card['held_out']['worst_error']:.5f}" in PAGE
    assert card["held_out"]["choice_frac"] == 1.0
