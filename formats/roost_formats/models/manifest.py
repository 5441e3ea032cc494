"""The manifest of a model: its kind, how it was made, and a batch with the expected answer.

It is in the model's folder under the same name, with the ending .json. Page: docs/models.md.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from roost_engine.domain.errors import PolicyError
from roost_formats.models.checked_model import Array, Arrays
from roost_formats.models.signature import INT64, SCORE, Signature, Tensor

FORMAT = 2  # of the manifest itself, as it is written
# Format 1 knew one kind, score: `columns` was a list, and `canary` held `features` and `scores`.
READ_FORMATS = (1, 2)
MAX_MANIFEST_BYTES = 1 << 20

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Manifest:
    """The statements of a model's maker about it.

    Attributes:
        kind: of the model, a key of signature.KINDS.
        schema_version: of the kind's signature that the model was trained for.
        columns: the names of the last dimension's positions in the model's order, by tensor.
        sha256: of the model file, 64 hexadecimal digits.
        size_bytes: of the model file.
        canary_inputs: the batch that is asked at load.
        canary_outputs: what the model answered to it where it was made.
        card: for people only: training command, seed, versions, figures.
    """

    kind: str
    schema_version: int
    columns: Mapping[str, tuple[str, ...]]
    sha256: str
    size_bytes: int
    canary_inputs: Arrays
    canary_outputs: Arrays
    card: Mapping[str, object]

    def to_json(self) -> str:
        """Return the manifest as text, ending in a newline."""
        body = {
            "format": FORMAT,
            "kind": self.kind,
            "schema_version": self.schema_version,
            "columns": {name: list(columns) for name, columns in self.columns.items()},
            "sha256": self.sha256,
            "size_bytes": self.size_bytes,
            "card": dict(self.card),
            "canary": {
                "inputs": {name: _plain(array) for name, array in self.canary_inputs.items()},
                "outputs": {name: _plain(array) for name, array in self.canary_outputs.items()},
            },
        }
        return json.dumps(body, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, signature: Signature) -> "Manifest":
        """Read a manifest of either format.

        Args:
            text: the file's.
            signature: of the kind that the model must have; it gives the canary's types.

        Raises:
            PolicyError: not JSON, an entry is missing or of another type than it should be, or the
                model is of another kind.
        """
        try:
            body = _mapping(json.loads(text), "the manifest")
        except (ValueError, RecursionError) as error:
            raise PolicyError(f"the manifest is not JSON: {error}") from error
        version = _entry(body, "format", _integer)
        if version not in READ_FORMATS:
            known = " and ".join(str(known) for known in READ_FORMATS)
            raise PolicyError(f"the manifest has format {version}; this daemon reads {known}")
        kind = _entry(body, "kind", _text) if "kind" in body else SCORE.kind
        if version == 1 and kind != SCORE.kind:
            raise PolicyError(
                f"the manifest is of kind {kind!r} in format 1, which knows only {SCORE.kind!r}"
            )
        if kind != signature.kind:
            raise PolicyError(f"the model is of kind {kind!r}; want {signature.kind!r}")
        parts = _parts_1(body) if version == 1 else _parts_2(body, signature)
        columns, canary_inputs, canary_outputs = parts
        return cls(
            kind=kind,
            schema_version=_entry(body, "schema_version", _integer),
            columns=columns,
            sha256=_entry(body, "sha256", _text),
            size_bytes=_entry(body, "size_bytes", _integer),
            card=_entry(body, "card", _mapping),
            canary_inputs=canary_inputs,
            canary_outputs=canary_outputs,
        )


def manifest_path(model_path: Path) -> Path:
    """Return the path of a model's manifest."""
    return model_path.with_suffix(".json")


_Parts = tuple[Mapping[str, tuple[str, ...]], Arrays, Arrays]  # columns, canary inputs and outputs


def _parts_1(body: Mapping[str, object]) -> _Parts:
    """Return the entries that format 1 writes differently from format 2."""
    (features,), (score,) = SCORE.inputs, SCORE.outputs
    columns = {features.name: _entry(body, "columns", _texts)}
    canary = _entry(body, "canary", _mapping)
    inputs = {features.name: _entry(canary, "features", _numbers(features.dtype))}
    return columns, inputs, {score.name: _entry(canary, "scores", _numbers(score.dtype))}


def _parts_2(body: Mapping[str, object], signature: Signature) -> _Parts:
    lists = _entry(body, "columns", _mapping)
    columns = {name: _entry(lists, name, _texts) for name in lists}
    canary = _entry(body, "canary", _mapping)
    inputs = _arrays(_entry(canary, "inputs", _mapping), signature.inputs)
    return columns, inputs, _arrays(_entry(canary, "outputs", _mapping), signature.outputs)


def _arrays(body: Mapping[str, object], tensors: tuple[Tensor, ...]) -> Arrays:
    return {tensor.name: _entry(body, tensor.name, _numbers(tensor.dtype)) for tensor in tensors}


def _plain(array: Array) -> object:
    """Nested lists of numbers, floats with the fewest digits that give the same float32 back."""
    if array.ndim:
        return [_plain(part) for part in array]
    return int(array) if array.dtype == INT64 else float(str(array))


def _entry(body: Mapping[str, object], key: str, parse: Callable[[object, str], _T]) -> _T:
    if key not in body:
        raise PolicyError(f"the manifest has no entry {key!r}")
    return parse(body[key], f"the manifest's entry {key!r}")


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise PolicyError(f"{what} is not a mapping")
    return value


def _integer(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise PolicyError(f"{what} is not a whole number")
    return value


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise PolicyError(f"{what} is not a text")
    return value


def _texts(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise PolicyError(f"{what} is not a list")
    return tuple(_text(item, what) for item in value)


def _numbers(dtype: np.dtype[Any]) -> Callable[[object, str], Array]:
    return _integers if dtype == INT64 else _floats


def _floats(value: object, what: str) -> Array:
    try:
        with np.errstate(over="ignore"):  # too large becomes infinite, which is refused below
            numbers = np.asarray(value, dtype=np.float32)
    except (OverflowError, TypeError, ValueError) as error:
        raise PolicyError(f"{what} is not a table of numbers") from error
    if not np.isfinite(numbers).all():
        raise PolicyError(f"{what} holds NaN or infinity")
    return numbers


def _integers(value: object, what: str) -> Array:
    try:
        numbers = np.asarray(value)
    except ValueError as error:
        raise PolicyError(f"{what} is not a table of whole numbers") from error
    if numbers.size and numbers.dtype != INT64:  # numpy would cut fractions off in silence
        raise PolicyError(f"{what} is not a table of whole numbers")
    return numbers.astype(INT64)
