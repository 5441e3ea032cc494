from dataclasses import replace

import numpy as np
import pytest
from tests.formats.models.quantile_kind import QUANTILES

from roost_engine.cluster.features import COLUMNS, SCHEMA_VERSION
from roost_engine.domain.errors import PolicyError
from roost_engine.prediction.run_time import run_time_features
from roost_engine.prediction.run_time.run_times import BAND_COUNT
from roost_formats.models.signature import (
    INT64,
    KINDS,
    ORDER,
    RUN_TIMES,
    SCORE,
    Limits,
    Signature,
    Tensor,
    signature_of,
)


def test_kinds_are_known_by_their_names() -> None:
    assert {kind: signature.kind for kind, signature in KINDS.items()} == {
        "score": "score",
        "order": "order",
        "runtimes": "runtimes",
        "graph": "graph",
        "interference": "interference",
        "gate": "gate",
    }
    assert signature_of("runtimes") is RUN_TIMES


def test_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(
        PolicyError,
        match="named 'orders'; known are score, order, runtimes, graph, interference, gate",
    ):
        signature_of("orders")


def test_score_prescribes_the_engines_columns() -> None:
    assert SCORE.schema_version == SCHEMA_VERSION
    assert SCORE.inputs[0].columns == COLUMNS


def test_run_times_prescribe_the_engines_columns_and_bands() -> None:
    assert RUN_TIMES.inputs[0].columns == run_time_features.COLUMNS
    assert RUN_TIMES.schema_version == run_time_features.SCHEMA_VERSION
    assert RUN_TIMES.outputs[0].sizes == ("job", BAND_COUNT)


def test_a_tensor_reads_as_type_and_sizes() -> None:
    tensor = Tensor(name="edges", sizes=("edge", 2), dtype=INT64)
    assert tensor.describe({}) == "int64[edge, 2]"
    assert tensor.describe({"edge": 7, "job": 3}) == "int64[7, 2]"


def test_manifests_name_columns_where_the_model_chooses_them_or_the_signature_does() -> None:
    def named(signature: Signature) -> list[str]:
        return [t.name for t in signature.tensors if signature.has_columns(t)]

    assert named(SCORE) == ["features"]
    assert named(ORDER) == ["jobs", "cluster"]
    assert named(RUN_TIMES) == ["features"]
    assert named(QUANTILES) == ["features", "quantiles"]


def test_sizes_that_a_file_fixes_replace_their_symbols_everywhere() -> None:
    fixed = QUANTILES.with_sizes({"feature": 12, "quantile": 3})
    assert [tensor.sizes for tensor in fixed.tensors] == [("job", 12), ("job", 3)]
    assert fixed.batch == QUANTILES.batch


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outputs": (Tensor(name="features", sizes=("candidate",)),)}, "the same name"),
        ({"limits": Limits(rank=1)}, "features has too many dimensions"),
        (
            {"inputs": (Tensor(name="x", sizes=("candidate", 2), columns=("one",)),)},
            "x has other columns than sizes",
        ),
        ({"batch": ("job",)}, "no input has the sizes"),
        ({"batch": ()}, "no input has the sizes"),
        (
            {"inputs": (Tensor(name="x", sizes=("candidate",), dtype=np.dtype(np.float64)),)},
            "x is of type float64",
        ),
    ],
)
def test_senseless_signatures_are_errors(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(SCORE, **change)  # type: ignore[arg-type]
