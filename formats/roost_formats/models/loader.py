"""Loads a model of any kind, after the checks that it must pass.

A model file is untrusted: its size and hash are compared with the manifest, its graph is parsed and
checked, and it must answer a known batch correctly before it is used; its later answers are checked
too. Every failure is a PolicyError, and a heuristic answers in the model's place. Page:
docs/models.md.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from roost_engine.domain.errors import PolicyError
from roost_formats.models.checked_model import Arrays, CheckedModel, Session
from roost_formats.models.graph_shapes import check_shapes
from roost_formats.models.manifest import MAX_MANIFEST_BYTES, Manifest, manifest_path
from roost_formats.models.onnx_file import OnnxGraph, OnnxValue, read_onnx
from roost_formats.models.signature import SCORE, Signature, Tensor, signature_of


def load_model(path: Path, kind: str, clock: Callable[[], float]) -> CheckedModel:
    """Load a model of one of the known kinds after every check.

    Args:
        path: of the ONNX file; its manifest stands beside it.
        kind: a key of signature.KINDS.
        clock: see CheckedModel.

    Raises:
        PolicyError: the kind is unknown, or a check failed; the message says which.
    """
    return load(path, signature_of(kind), clock)


def load_model_and_graph(
    path: Path, kind: str, clock: Callable[[], float]
) -> tuple[CheckedModel, OnnxGraph]:
    """Load a model as load_model does, and return its checked graph too."""
    return _load(path, signature_of(kind), clock)


def kind_of(path: Path) -> str:
    """Return the kind that a model's manifest states, unchecked; without one, that of a score.

    Raises:
        PolicyError: the manifest cannot be read.
    """
    try:
        stated = json.loads(_read_manifest(manifest_path(path))).get("kind", SCORE.kind)
    except (AttributeError, ValueError, RecursionError):
        return SCORE.kind  # loading it says what is wrong
    return stated if isinstance(stated, str) else SCORE.kind


def load(path: Path, signature: Signature, clock: Callable[[], float]) -> CheckedModel:
    """Load a model that must have a signature, after every check.

    The file is read once, and the bytes that were checked are the bytes that run, so that no
    process can replace the model between the two.

    Raises:
        PolicyError: a check failed; the message says which.
    """
    return _load(path, signature, clock)[0]


def _load(
    path: Path, signature: Signature, clock: Callable[[], float]
) -> tuple[CheckedModel, OnnxGraph]:
    manifest = Manifest.from_json(_read_manifest(manifest_path(path)), signature)
    content = _read_capped(path, signature.limits.model_bytes)
    check_identity(manifest, content, signature)
    graph = read_onnx(content, signature)
    fixed = check_graph(graph, signature)
    check_columns(manifest, signature, fixed)
    model = CheckedModel(
        open_session(content, fixed),
        fixed,
        sha256=manifest.sha256,
        columns=manifest.columns,
        clock=clock,
    )
    check_canary(model, manifest)
    return model, graph


def check_identity(manifest: Manifest, content: bytes, signature: Signature) -> None:
    """Check that a file is its manifest's model, trained for the schema that this version writes.

    Raises:
        PolicyError: size or sha256 differ, or the schema version or prescribed columns do.
    """
    digest = hashlib.sha256(content).hexdigest()
    if len(content) != manifest.size_bytes or digest != manifest.sha256.lower():
        raise PolicyError(
            f"the file has sha256 {digest[:12]}… and {len(content)} bytes, its manifest says"
            f" {manifest.sha256[:12]}… and {manifest.size_bytes}; install both from one training"
        )
    prescribed = {t.name: t.columns for t in signature.tensors if t.columns is not None}
    trained = {name: manifest.columns.get(name, ()) for name in prescribed}
    if manifest.schema_version != signature.schema_version or trained != prescribed:
        raise PolicyError(
            f"the model was trained for schema {manifest.schema_version}"
            f"{_count(trained, ' columns')};"
            f" this daemon writes schema {signature.schema_version}{_count(prescribed)};"
            " train it again with this version's roost-train"
        )


def check_graph(graph: OnnxGraph, signature: Signature) -> Signature:
    """Check a model's inputs and outputs, and the sizes of all values between them.

    Returns:
        The signature with the sizes that the file has fixed.

    Raises:
        PolicyError: inputs or outputs differ from the signature's, or graph_shapes.check_shapes
            refuses a value between them.
    """
    sizes: dict[str, int] = {}
    inputs = graph.fed_inputs()
    if not _match(inputs, signature.inputs, signature, sizes):
        raise PolicyError(
            f"the model's inputs are {_described(inputs)};"
            f" want {_wanted(signature.inputs, signature)}"
        )
    if not _match(graph.outputs, signature.outputs, signature, sizes):
        raise PolicyError(
            f"the model's outputs are {_described(graph.outputs)};"
            f" want {_wanted(signature.outputs, signature)}"
        )
    fixed = signature.with_sizes(sizes)
    check_shapes(graph, fixed)
    return fixed


def check_columns(manifest: Manifest, signature: Signature, fixed: Signature) -> None:
    """Check that the manifest names a column for each position that the model reads or answers.

    Args:
        manifest: of the model.
        signature: of its kind.
        fixed: the same with the sizes that the model's file has fixed.

    Raises:
        PolicyError: it names too many or too few, or columns of other tensors.
    """
    named = {name: len(columns) for name, columns in manifest.columns.items()}
    wanted = {
        tensor.name: tensor.sizes[-1]
        for kind, tensor in zip(signature.tensors, fixed.tensors, strict=True)
        if signature.has_columns(kind)
    }
    if named != wanted:
        raise PolicyError(
            f"the manifest names the columns of {_listed(named)}; the model has {_listed(wanted)}"
        )


def check_canary(model: CheckedModel, manifest: Manifest) -> None:
    """Check that a model gives the answer that it gave where it was made.

    Raises:
        PolicyError: it does not, or the manifest's batch is unusable.
    """
    signature, expected = model.signature, manifest.canary_outputs
    if not _is_batch({**manifest.canary_inputs, **expected}, signature):
        raise _unusable_canary(signature)
    answers = model.ask(manifest.canary_inputs)
    if any(answers[name].shape != expected[name].shape for name in answers):
        raise _unusable_canary(signature)
    off = max(float(np.abs(answers[name] - expected[name]).max()) for name in answers)
    if off > signature.canary_tolerance:
        raise PolicyError(
            f"the model is off by {off:.3g} on its manifest's canary batch;"
            f" {signature.canary_tolerance:g} is allowed"
        )


def open_session(content: bytes, signature: Signature) -> Session:
    """Load checked bytes into ONNX Runtime: one thread, no spinning, no memory arena.

    Raises:
        PolicyError: the runtime is not installed, or refuses the model.
    """
    try:
        # Imported here: it costs a quarter of a second and 60 MB, which a daemon without a model is
        # spared, and a daemon whose installation lacks it must still start.
        from roost_formats.models.onnx_session import OnnxSession
    except ImportError as error:
        raise PolicyError(f"onnxruntime cannot be imported: {error}") from error
    return OnnxSession(content, tuple(tensor.name for tensor in signature.outputs))


def _match(
    values: Sequence[OnnxValue],
    tensors: Sequence[Tensor],
    signature: Signature,
    sizes: dict[str, int],
) -> bool:
    """Whether a file declares the tensors, in any order; adds the sizes it fixes to `sizes`."""
    by_name = {value.name: value for value in values}
    return (
        len(values) == len(tensors)
        and by_name.keys() == {tensor.name for tensor in tensors}
        and all(_matches(by_name[t.name], t, signature, sizes) for t in tensors)
    )


def _matches(value: OnnxValue, tensor: Tensor, signature: Signature, sizes: dict[str, int]) -> bool:
    declared = value.dimensions
    if tensor in signature.outputs and len(tensor.sizes) == 1 and declared[1:] == (1,):
        declared = declared[:1]  # a column; CheckedModel flattens it
    if value.dtype != tensor.dtype or len(declared) != len(tensor.sizes):
        return False
    for size, wanted in zip(declared, tensor.sizes, strict=True):
        if wanted in signature.batch:
            if size is not None:
                return False
            continue
        if size is None or not 1 <= size <= signature.limits.dimension:
            return False
        if size != (sizes.setdefault(wanted, size) if isinstance(wanted, str) else wanted):
            return False
    return True


def _described(values: Sequence[OnnxValue]) -> str:
    return ", ".join(value.describe() for value in values)


def _wanted(tensors: Sequence[Tensor], signature: Signature) -> str:
    """Return the tensors as OnnxValue.describe does; "?" where a file may use any name or size."""
    return ", ".join(
        f"{tensor.dtype} {tensor.name}"
        f"[{', '.join('?' if s in signature.batch else str(s) for s in tensor.sizes)}]"
        for tensor in tensors
    )


def _count(columns: Mapping[str, tuple[str, ...]], noun: str = "") -> str:
    return f" with {sum(map(len, columns.values()))}{noun}" if columns else ""


def _listed(counts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in counts.items()) or "nothing"


def _is_batch(arrays: Arrays, signature: Signature) -> bool:
    """Whether some arrays have one size, not zero, for every symbol of the batch."""
    found: dict[str, set[int]] = {symbol: set() for symbol in signature.batch}
    for tensor in signature.tensors:
        shape = arrays[tensor.name].shape
        if len(shape) != len(tensor.sizes):
            return False
        for size, wanted in zip(shape, tensor.sizes, strict=True):
            if isinstance(wanted, str):
                found[wanted].add(size)
    return all(len(sizes) == 1 and 0 not in sizes for sizes in found.values())


def _unusable_canary(signature: Signature) -> PolicyError:
    def of_batch(tensors: Sequence[Tensor]) -> str:
        return " and ".join(t.name for t in tensors if set(t.sizes) & set(signature.batch))

    return PolicyError(
        f"the manifest's canary needs a row of {of_batch(signature.inputs)}"
        f" for each {of_batch(signature.outputs)}"
    )


def _read_manifest(path: Path) -> str:
    try:
        return _read_capped(path, MAX_MANIFEST_BYTES).decode()
    except UnicodeDecodeError as error:
        raise PolicyError(f"the manifest {path.name} is no text") from error


def _read_capped(path: Path, limit_bytes: int) -> bytes:
    try:
        if path.is_fifo():  # to open one waits for its other end
            raise PolicyError(f"{path.name} is a pipe; want a file")
        with path.open("rb") as file:
            content = file.read(limit_bytes + 1)
    except OSError as error:
        raise PolicyError(f"{path.name} cannot be read: {error.strerror}") from error
    if len(content) > limit_bytes:
        raise PolicyError(f"{path.name} is larger than {limit_bytes} bytes")
    return content
