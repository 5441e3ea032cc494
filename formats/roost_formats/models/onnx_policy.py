"""The candidate score from an ONNX model, and everything that must hold before one may answer.

A model is advice from outside: it is measured, hashed, taken apart and tried on a known batch
before it is believed, and watched while it answers. Whatever goes wrong is a PolicyError; the
engine then asks the heuristic. Page: docs/policy.md.
"""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.features import COLUMNS, SCHEMA_VERSION, HeuristicScore
from roost_engine.domain.errors import PolicyError
from roost_engine.policies import ScorePolicy
from roost_formats.models.manifest import MAX_MANIFEST_BYTES, PolicyManifest, manifest_path
from roost_formats.models.onnx_file import OnnxGraph, OnnxValue, read_onnx

BUILTIN_MODEL = Path(__file__).parent.parent / "data" / "policy.onnx"
MAX_MODEL_BYTES = 10_000_000
INPUT_NAME, OUTPUT_NAME = "features", "score"
CANARY_TOLERANCE = 1e-5

# A thousand candidates take 0.2 ms on one core; ten times a decision's whole budget is a fault.
BUDGET_S = 0.010
SLOW_LIMIT = 3  # slow answers in a row: one alone may be the kernel's doing
REST_S = 60.0


class Session(Protocol):
    """A loaded model, ready to run."""

    def run(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the raw answer to a [candidate, column] batch.

        Raises:
            PolicyError: the runtime failed.
        """


class OnnxScore:
    """A ScorePolicy that asks a checked model. Make one with load_onnx_score."""

    def __init__(
        self,
        session: Session,
        sha256: str,
        clock: Callable[[], float],
        *,
        budget_s: float = BUDGET_S,
        slow_limit: int = SLOW_LIMIT,
        rest_s: float = REST_S,
    ) -> None:
        """Watch a session.

        Args:
            session: the loaded model.
            sha256: of its file.
            clock: seconds, never backwards; roostd hands in time.perf_counter.
            budget_s: an answer that takes longer is slow.
            slow_limit: this many slow answers in a row take the model out of service.
            rest_s: for so long, after which it gets one more try.
        """
        self.name = f"onnx:{sha256[:12]}"
        self._session, self._clock = session, clock
        self._budget_s, self._slow_limit, self._rest_s = budget_s, slow_limit, rest_s
        self._slow_count = 0
        self._rests_until_s: float | None = None

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """See policies.ScorePolicy."""
        began_s = self._clock()
        if self._rests_until_s is not None and began_s < self._rests_until_s:
            left_s = self._rests_until_s - began_s
            raise PolicyError(f"{self.name} is out of service for {left_s:.0f} s: it was too slow")
        if features.dtype != np.float32 or features.shape[1:] != (len(COLUMNS),):
            raise PolicyError(
                f"features are {features.dtype}{list(features.shape)};"
                f" want float32[candidate, {len(COLUMNS)}]"
            )
        if not len(features):
            return np.empty(0, dtype=np.float32)
        if not np.isfinite(features).all():
            raise PolicyError("features hold NaN or infinity")
        scores = self._checked(self._session.run(features), len(features))
        self._note_time(self._clock() - began_s)
        return scores

    def _checked(self, answer: NDArray[np.float32], count: int) -> NDArray[np.float32]:
        if answer.dtype != np.float32 or answer.shape not in ((count,), (count, 1)):
            raise PolicyError(
                f"{self.name} answered {answer.dtype}{list(answer.shape)}"
                f" to {count} candidates; want float32[{count}]"
            )
        if not np.isfinite(answer).all():
            raise PolicyError(f"{self.name} answered NaN or infinity")
        return answer.reshape(count)

    def _note_time(self, took_s: float) -> None:
        if took_s <= self._budget_s:
            self._slow_count, self._rests_until_s = 0, None
            return
        self._slow_count += 1
        if self._slow_count >= self._slow_limit:
            # The count stays: after the rest a single slow answer sends it back.
            self._rests_until_s = self._clock() + self._rest_s
            raise PolicyError(
                f"{self.name} took {took_s * 1000:.1f} ms, more than"
                f" {self._budget_s * 1000:g} ms {self._slow_count} times in a row;"
                f" out of service for {self._rest_s:g} s"
            )


def load_score_policy(
    model: str, clock: Callable[[], float] = time.perf_counter
) -> tuple[ScorePolicy, str | None]:
    """Choose the score policy of a daemon. Never raises: a bad model must not stop placement.

    Args:
        model: "builtin", "none", or the path of a model with its manifest beside it.
        clock: see OnnxScore.

    Returns:
        The policy, and what was wrong with the model; None where nothing was.
    """
    if model == "none":
        return HeuristicScore(), None
    path = BUILTIN_MODEL if model == "builtin" else Path(model)
    try:
        return load_onnx_score(path, clock), None
    except PolicyError as error:
        return HeuristicScore(), f"{path}: {error}; the heuristic answers instead"


def load_onnx_score(path: Path, clock: Callable[[], float]) -> OnnxScore:
    """Load a model after every check.

    The file is read once and those bytes are checked and run, so that nobody can swap it between.

    Raises:
        PolicyError: says which check failed.
    """
    manifest = PolicyManifest.from_json(_read_manifest(manifest_path(path)))
    model = _read_capped(path, MAX_MODEL_BYTES)
    check_identity(manifest, model)
    check_graph(read_onnx(model))
    policy = OnnxScore(open_session(model), manifest.sha256, clock)
    check_canary(policy, manifest)
    return policy


def check_identity(manifest: PolicyManifest, model: bytes) -> None:
    """Check that the bytes are the manifest's model and that it reads the columns we write.

    Raises:
        PolicyError: they are not, or it does not.
    """
    digest = hashlib.sha256(model).hexdigest()
    if len(model) != manifest.size_bytes or digest != manifest.sha256.lower():
        raise PolicyError(
            f"the file has sha256 {digest[:12]}… and {len(model)} bytes, its manifest says"
            f" {manifest.sha256[:12]}… and {manifest.size_bytes}; install both from one training"
        )
    if manifest.schema_version != SCHEMA_VERSION or manifest.columns != COLUMNS:
        raise PolicyError(
            f"the model was trained for schema {manifest.schema_version} with"
            f" {len(manifest.columns)} columns; this daemon writes schema {SCHEMA_VERSION} with"
            f" {len(COLUMNS)}; train it again with this version's roost-train"
        )


def check_graph(graph: OnnxGraph) -> None:
    """Check names, types and shapes at the model's ends.

    Raises:
        PolicyError: they are not features[candidate, column] -> score[candidate].
    """
    # Old exporters list the weights among the inputs.
    inputs = [value for value in graph.inputs if value.name not in graph.weights]
    wanted_in = [OnnxValue(INPUT_NAME, True, (None, len(COLUMNS)))]
    wanted_out = [OnnxValue(OUTPUT_NAME, True, shape) for shape in ((None,), (None, 1))]
    if inputs != wanted_in:
        raise PolicyError(
            f"the model's inputs are {_described(inputs)}; want {_described(wanted_in)}"
        )
    if len(graph.outputs) != 1 or graph.outputs[0] not in wanted_out:
        raise PolicyError(
            f"the model's outputs are {_described(graph.outputs)};"
            f" want {_described(wanted_out[:1])}"
        )


def check_canary(policy: OnnxScore, manifest: PolicyManifest) -> None:
    """Check that the model still answers what it answered where it was made.

    Raises:
        PolicyError: it does not, or the manifest's batch is unusable.
    """
    features, expected = manifest.canary_features, manifest.canary_scores
    if features.ndim != 2 or expected.shape != (len(features),) or not len(features):
        raise PolicyError("the manifest's canary needs a row of features for each score")
    off = float(np.abs(policy.score(features) - expected).max())
    if off > CANARY_TOLERANCE:
        raise PolicyError(
            f"the model is off by {off:.3g} on its manifest's canary batch;"
            f" {CANARY_TOLERANCE:g} is allowed"
        )


def open_session(model: bytes) -> Session:
    """Load checked bytes into ONNX Runtime: one thread, no spinning, no memory arena.

    Raises:
        PolicyError: the runtime is not installed, or refuses the model.
    """
    try:
        # Here, not above: it costs a quarter of a second and 60 MB, which a daemon without a
        # model need not pay, and a daemon whose installation lacks it must still start.
        from roost_formats.models.onnx_session import OnnxSession
    except ImportError as error:
        raise PolicyError(f"onnxruntime cannot be imported: {error}") from error
    return OnnxSession(model, INPUT_NAME, OUTPUT_NAME)


def _described(values: "list[OnnxValue] | tuple[OnnxValue, ...]") -> str:
    return ", ".join(
        f"{'float32' if value.is_float32 else 'other type'} {value.name}"
        f"[{', '.join('?' if d is None else str(d) for d in value.dimensions)}]"
        for value in values
    )


def _read_manifest(path: Path) -> str:
    try:
        return _read_capped(path, MAX_MANIFEST_BYTES).decode()
    except UnicodeDecodeError as error:
        raise PolicyError(f"the manifest {path.name} is no text") from error


def _read_capped(path: Path, limit_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(limit_bytes + 1)
    except OSError as error:
        raise PolicyError(f"{path.name} cannot be read: {error.strerror}") from error
    if len(content) > limit_bytes:
        raise PolicyError(f"{path.name} is larger than {limit_bytes} bytes")
    return content
