"""Checkpoints of a training: written whole or not at all; reading one executes nothing in it."""

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch

from roost_train.errors import TrainError


def write_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write a checkpoint; a file that is there is replaced whole or not at all.

    Args:
        path: of the file.
        state: tensors and plain data, by name.

    Raises:
        OSError: the disk does not take it.
    """
    content = BytesIO()  # on a full disk torch itself raises RuntimeError, and names no cause
    torch.save(dict(state), content)
    beside = path.with_suffix(".part")
    beside.write_bytes(content.getbuffer())
    beside.replace(path)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return what write_checkpoint wrote; nothing in the file is executed.

    Raises:
        TrainError: the file is damaged, or of another kind.
    """
    try:
        with ZipFile(path) as parts:  # torch itself does not compare its checksums
            if (damaged := parts.testzip()) is not None:
                raise TrainError(f"{path}: no checkpoint of a selector: {damaged} is damaged")
        state = torch.load(path, weights_only=True)
    except TrainError:
        raise
    except Exception as error:  # torch raises whatever its unpickler met
        raise TrainError(f"{path}: no checkpoint of a selector: {error}") from error
    if not isinstance(state, dict):
        raise TrainError(f"{path}: no checkpoint of a selector: it holds a {type(state).__name__}")
    return state
