"""The page that travels with a model: what it is, how it was made, and how to tell that it works.

It stands beside the model under the same name, with the ending .json. Page: docs/policy.md.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.errors import PolicyError

FORMAT = 1  # of the manifest itself
MAX_MANIFEST_BYTES = 1 << 20

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolicyManifest:
    """What a model says of itself.

    Attributes:
        schema_version: of the columns, cluster.features.SCHEMA_VERSION.
        columns: in the model's order.
        sha256: of the model file, 64 hexadecimal digits.
        size_bytes: of the model file.
        canary_features: float32 [candidate, column]: the batch that is scored at load.
        canary_scores: float32 [candidate]: what the model answered where it was made.
        card: for people: training command, seed, versions, figures. No program reads it.
    """

    schema_version: int
    columns: tuple[str, ...]
    sha256: str
    size_bytes: int
    canary_features: NDArray[np.float32]
    canary_scores: NDArray[np.float32]
    card: Mapping[str, object]

    def to_json(self) -> str:
        """The manifest as text, ending in a newline."""
        body = {
            "format": FORMAT,
            "schema_version": self.schema_version,
            "columns": list(self.columns),
            "sha256": self.sha256,
            "size_bytes": self.size_bytes,
            "card": dict(self.card),
            "canary": {
                "features": [[float(str(x)) for x in row] for row in self.canary_features],
                "scores": [float(str(x)) for x in self.canary_scores],
            },
        }
        return json.dumps(body, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "PolicyManifest":
        """Read a manifest.

        Raises:
            PolicyError: not JSON, or an entry is missing or of another kind than it should be.
        """
        try:
            body = _mapping(json.loads(text), "the manifest")
        except (ValueError, RecursionError) as error:
            raise PolicyError(f"the manifest is not JSON: {error}") from error
        version = _entry(body, "format", _integer)
        if version != FORMAT:
            raise PolicyError(f"the manifest has format {version}; this daemon reads {FORMAT}")
        canary = _entry(body, "canary", _mapping)
        return cls(
            schema_version=_entry(body, "schema_version", _integer),
            columns=_entry(body, "columns", _texts),
            sha256=_entry(body, "sha256", _text),
            size_bytes=_entry(body, "size_bytes", _integer),
            card=_entry(body, "card", _mapping),
            canary_features=_entry(canary, "features", _floats),
            canary_scores=_entry(canary, "scores", _floats),
        )


def manifest_path(model_path: Path) -> Path:
    """Where the manifest of a model stands."""
    return model_path.with_suffix(".json")


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


def _floats(value: object, what: str) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # too large becomes infinite, which is refused below
            numbers = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{what} is not a table of numbers") from error
    if not np.isfinite(numbers).all():
        raise PolicyError(f"{what} holds NaN or infinity")
    return numbers
