"""The two files of a model that a daemon loads: the ONNX file, and the manifest beside it."""

import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from roost_formats.models.manifest import Manifest, manifest_path
from roost_formats.models.onnx_runtime import onnxruntime
from roost_formats.models.signature import Signature

Tensors = Mapping[str, NDArray[np.float32]]


def write_model_files(
    path: Path,
    model: bytes,
    signature: Signature,
    columns: Mapping[str, tuple[str, ...]],
    canary: tuple[Tensors, Tensors],
    card: Mapping[str, object],
) -> None:
    """Write a model and its manifest; the folder is made if it is missing.

    Args:
        path: of the model.
        model: the ONNX file.
        signature: of its kind.
        columns: what it reads, by input.
        canary: inputs and the right answers to them, which the daemon asks for when it loads.
        card: what the manifest says of data, training and results.

    Raises:
        OSError: the folder cannot be written.
    """
    inputs, outputs = canary
    manifest = Manifest(
        kind=signature.kind,
        schema_version=signature.schema_version,
        columns=columns,
        sha256=hashlib.sha256(model).hexdigest(),
        size_bytes=len(model),
        canary_inputs=inputs,
        canary_outputs=outputs,
        card=card,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model)
    manifest_path(path).write_text(manifest.to_json(), encoding="utf-8")


def library_versions() -> Mapping[str, str]:
    """Return the versions of everything that a model's numbers may depend on."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "onnx": onnx.__version__,
        "onnxruntime": onnxruntime.__version__,
    }
