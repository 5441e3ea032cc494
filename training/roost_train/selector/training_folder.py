"""The folder of a training that can be stopped: what it is of, its log, files written whole.

A training is stopped between any two writes, within a line of the log, or by a full disk. So a file
is replaced whole or not at all, and a line that is not whole ends what counts of the log.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.traces.trace import LABELS, Trace
from roost_train.errors import TrainError

_LOG = "log.jsonl"
_COLUMNS = (
    *("submit_s", "duration_s", "gpu_count", "node_count", "user_id", "model_id", "status"),
    *("time_limit_s", "wait_s", "is_array"),
)


class TrainingFolder:
    """See the module.

    Args:
        path: made if it is missing.
        about: what decides how the training comes out, as plain data.

    Raises:
        TrainError: the folder holds another training, or one that is running.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        # Never closed: the lock is the process's, and ends with it, however that comes.
        lock = os.open(path / "lock", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise TrainError(f"{path}: another roost-train is at work in this folder") from error
        except OSError:
            pass  # a file system without locks
        text, config = json.dumps(about, indent=1) + "\n", path / "config.json"
        if not config.exists():
            self.write(config.name, text)
        elif config.read_text(encoding="utf-8", errors="replace") != text:
            raise TrainError(
                f"{path} holds a training with another configuration, trace or cluster"
                f" ({config.name} says which); take another folder"
            )

    def write(self, name: str, text: str) -> None:
        """Write a file whole or not at all."""
        beside = (self.path / name).with_suffix(".part")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self.path / name)

    def document(self, name: str) -> Any:
        """Return the JSON value of a file.

        Raises:
            TrainError: it is damaged.
        """
        path = self.path / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise TrainError(f"{path}: damaged ({error}); begin again in another folder") from error

    def log(self, line: Mapping[str, object]) -> None:
        """Add a line to the log."""
        with (self.path / _LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """Return the lines of a kind, oldest first."""
        return [line[kind] for line in self._whole_lines() if kind in line]

    def keep_lines(self, is_kept: Callable[[Mapping[str, Any]], bool]) -> None:
        """Drop the other lines of the log, and a last line that is not whole."""
        kept = [json.dumps(line) + "\n" for line in self._whole_lines() if is_kept(line)]
        if (self.path / _LOG).exists():
            self.write(_LOG, "".join(kept))

    def _whole_lines(self) -> Iterator[dict[str, Any]]:
        path = self.path / _LOG
        if not path.exists():
            return
        for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                line = json.loads(text)
            except ValueError:  # the training was stopped within this line
                return
            if not isinstance(line, dict):
                return
            yield line


def data_digest(traces: tuple[Trace, ...], clusters: tuple[ClusterSpec, ...]) -> str:
    """Return the sha256 of all jobs and clusters, in hexadecimal: two files may share a name."""
    found = sha256()
    for trace in traces:
        for column in _COLUMNS:
            found.update(getattr(trace, column).tobytes())
        for label in LABELS:
            found.update(getattr(trace, label).ids.tobytes())
            found.update(repr(getattr(trace, label).names).encode())
        found.update(repr((trace.user_names, trace.model_names, trace.epoch_of_zero_s)).encode())
    for cluster in clusters:
        kinds = {node.kind.name: node.kind for node in cluster.nodes}
        nodes = [(node.name, node.kind.name, node.rack, node.pod) for node in cluster.nodes]
        tiers = [cluster.tiers[tier] for tier in sorted(cluster.tiers)]
        found.update(repr((kinds, nodes, tiers)).encode())
    return found.hexdigest()
