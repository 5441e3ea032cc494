"""GPU memory that earlier runs of a kind of job used, and what the next run is expected to need.

A kind is a user and a job's name without what varies from run to run. The expectation is the
highest use of any GPU in the last runs, and a margin: frameworks keep what they have taken, but
their use differs from run to run. A kind of which few runs were seen has none. What a user states
takes the place of the margin, but not of what earlier runs have used.
"""

import json
from collections import deque
from collections.abc import Mapping
from itertools import islice

from roost_engine.domain.errors import RoostError
from roost_engine.prediction.run_time.history_kinds import normalised

LEAST_RUNS = 3
MARGIN_FRAC = 0.2
MOST_BYTES = 16 << 20  # of the file
_STEP_BYTES = 1 << 30  # so that a job's request rarely changes while it waits
_LAST_RUNS = 10
_MOST_KINDS = 20_000
_MOST_MEMORY_BYTES = 1 << 50
_SCHEMA = "roost.gpu-memory/1"


class GpuMemoryFileError(RoostError):
    """What was learned before cannot be read."""


class GpuMemoryPeaks:
    """The highest use of each of the last runs, by kind; the kinds that ran last are kept.

    Attributes:
        run_count: runs noted since it was made.
    """

    def __init__(self) -> None:
        self._peaks_bytes: dict[str, deque[int]] = {}
        self.run_count = 0

    def note_run(self, user_id: int, name: str, peak_bytes: int) -> None:
        """Note that a run has ended which used so much of one GPU at most."""
        kind = _kind(user_id, name)
        peaks = self._peaks_bytes.pop(kind, None) or deque[int](maxlen=_LAST_RUNS)
        peaks.append(peak_bytes)
        self._peaks_bytes[kind] = peaks
        self.run_count += 1
        if len(self._peaks_bytes) > _MOST_KINDS:
            del self._peaks_bytes[next(iter(self._peaks_bytes))]

    def need_bytes(self, user_id: int, name: str, stated_bytes: int = 0) -> int:
        """Return what the next run is expected to need of each GPU at most; 0: not known.

        Args:
            user_id: of the job.
            name: of the job.
            stated_bytes: what its user states that it needs; 0: nothing.
        """
        peaks = self._peaks_bytes.get(_kind(user_id, name), ())
        if len(peaks) < LEAST_RUNS:
            return stated_bytes
        used_bytes = max(peaks)
        if not stated_bytes:
            return in_steps(int(used_bytes * (1.0 + MARGIN_FRAC)))
        return in_steps(used_bytes) if used_bytes > stated_bytes else stated_bytes

    def text(self) -> str:
        """Return the text of the file."""
        kinds = {kind: list(peaks) for kind, peaks in self._peaks_bytes.items()}
        return json.dumps({"schema": _SCHEMA, "kinds": kinds}, separators=(",", ":"))


def in_steps(size_bytes: int) -> int:
    """Return a size rounded up to whole GiB."""
    return -(-size_bytes // _STEP_BYTES) * _STEP_BYTES


def read_peaks(text: str) -> GpuMemoryPeaks:
    """Read what `GpuMemoryPeaks.text` returned.

    Raises:
        GpuMemoryFileError: it is something else.
    """
    found = GpuMemoryPeaks()
    try:
        document = json.loads(text)
        if document["schema"] != _SCHEMA:
            raise GpuMemoryFileError(f"want schema {_SCHEMA}, got {document['schema']!r:.60}")
        kinds: Mapping[str, list[int]] = document["kinds"]
        for kind, peaks in islice(kinds.items(), _MOST_KINDS):
            user, _, name = kind.partition(" ")
            for peak_bytes in peaks:
                if isinstance(peak_bytes, bool) or not isinstance(peak_bytes, int):
                    raise ValueError(f"{peak_bytes!r:.40} is no number of bytes")
                if not 0 <= peak_bytes <= _MOST_MEMORY_BYTES:
                    raise ValueError(f"no GPU has {peak_bytes} bytes")
                found.note_run(int(user), name, peak_bytes)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise GpuMemoryFileError(
            f"is none of GPU memory: {type(error).__name__}: {error}"
        ) from error
    found.run_count = 0
    return found


def _kind(user_id: int, name: str) -> str:
    return f"{user_id} {normalised(name)}"
