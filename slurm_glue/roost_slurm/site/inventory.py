"""The GPUs of a cluster's nodes, as their probes described them in JSON.

Reads files as `roost-probe --print-topology --json` prints them: one a node, with its name as key
"node" (a file without the key is called NODE.json); or one file for all, an object of
descriptions by node name or a list of them.
Keys used: {"node", "gpus": [{"index", "model", "minor_number", "mig_enabled"}]}; no others.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_MAX_MINOR = 1023
_MIG = "MIG is enabled; Roost places whole GPUs; cure: nvidia-smi -i GPU -mig 0"


class InventoryError(ValueError):
    """The descriptions cannot be used; carries every problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU; its position in NodeGpus.gpus is its gres index."""

    minor_number: int  # N of /dev/nvidiaN
    model: str  # the driver's name of it


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The GPUs of one node in gres order: ascending minor number."""

    node: str
    gpus: tuple[Gpu, ...]

    @property
    def minor_numbers(self) -> tuple[int, ...]:
        """Of each GPU."""
        return tuple(gpu.minor_number for gpu in self.gpus)


def load(paths: Iterable[Path], left_out: list[str] | None = None) -> tuple[NodeGpus, ...]:
    """Read descriptions from files.

    Args:
        paths: the files.
        left_out: gets a line for each node with a GPU in MIG mode, which is then left out; without
            the list such a node is an error.

    Raises:
        InventoryError: with all problems of all files; each names the file, the node and the GPU.
    """
    problems: list[str] = []
    nodes: dict[str, NodeGpus] = {}
    for path in paths:
        for where, name, value in _descriptions(path, problems):
            if left_out is not None and (mig := _mig_gpus(value)):
                left_out.append(f"{where}: node {name} GPU {mig}: {_MIG}")
                continue
            node = _parse_node(where, name, value, problems)
            if node is not None and nodes.setdefault(name, node) is not node:
                problems.append(f"{where}: node {name} is described twice")
    if not problems and not nodes and not left_out:
        problems.append("no node described; want files of `roost-probe --print-topology --json`")
    if problems:
        raise InventoryError(problems)
    return tuple(nodes[name] for name in sorted(nodes))


def _descriptions(path: Path, problems: list[str]) -> Iterator[tuple[str, str, object]]:
    """Yield (where, node name, description) of each node of a file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(f"{path}: {error.strerror}")
        return
    except UnicodeDecodeError:
        problems.append(f"{path}: not UTF-8 text")
        return
    except ValueError as error:
        problems.append(f"{path}: not JSON: {error}")
        return
    if isinstance(document, list):
        for i, entry in enumerate(document):
            name = entry.get("node", "") if isinstance(entry, dict) else ""
            yield f"{path}: entry {i}", str(name), entry
    elif isinstance(document, dict) and "gpus" not in document:
        for name, entry in document.items():
            yield str(path), name, entry
    else:
        name = document.get("node", path.stem) if isinstance(document, dict) else path.stem
        yield str(path), str(name), document


def _parse_node(where: str, name: str, value: object, problems: list[str]) -> NodeGpus | None:
    if not _NODE_NAME.fullmatch(name):
        problems.append(f"{where}: {name!r} is no node name; want a key node, or a file NODE.json")
        return None
    entries = value.get("gpus") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        problems.append(f"{where}: node {name}: want an object with a list gpus")
        return None
    gpus: list[Gpu] = []
    for i, entry in enumerate(entries):
        gpu = _parse_gpu(entry)
        if isinstance(gpu, Gpu):
            gpus.append(gpu)
        else:
            problems.append(f"{where}: node {name} GPU {i}: {gpu}")
    minors = [gpu.minor_number for gpu in gpus]
    for minor in sorted({minor for minor in minors if minors.count(minor) > 1}):
        problems.append(f"{where}: node {name}: two GPUs have minor number {minor}")
    return NodeGpus(name, tuple(sorted(gpus, key=lambda gpu: gpu.minor_number)))


def _mig_gpus(value: object) -> str:
    """Return the positions of a node's GPUs in MIG mode, comma-separated; "" where it has none."""
    entries = value.get("gpus") if isinstance(value, dict) else None
    rows = entries if isinstance(entries, list) else []
    return ",".join(
        str(i) for i, row in enumerate(rows) if isinstance(row, dict) and row.get("mig_enabled")
    )


def _parse_gpu(entry: object) -> Gpu | str:
    """Return the GPU, or what is wrong with it."""
    if not isinstance(entry, dict):
        return "want an object"
    if entry.get("mig_enabled"):
        return _MIG
    minor, model = entry.get("minor_number"), entry.get("model")
    if isinstance(minor, bool) or not isinstance(minor, int) or not 0 <= minor <= _MAX_MINOR:
        return f"minor_number is {minor!r}; want N of its /dev/nvidiaN, 0 to {_MAX_MINOR}"
    if not isinstance(model, str) or not model.strip():
        return f"model is {model!r}; want the driver's name of it"
    return Gpu(minor_number=minor, model=model)
