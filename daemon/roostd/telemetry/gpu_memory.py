"""GPU memory that earlier runs of a kind of job used, and what the next run is expected to need.

A kind is a user and a job's name without what varies from run to run. The expectation is the
highest use of any GPU in the last runs, and a margin: frameworks keep what they have taken, but
their use differs from run to run. A kind of which few runs were seen has none. What a user states
takes the place of the margin, but not of what earlier runs have used. One run that outgrew what it
counted with is believed by itself, for the next ten runs: another job may have relied on that.
"""

import json
from collections import deque
from collections.abc import Mapping
from itertools import islice

from roost_engine.prediction.run_time.history_kinds import normalised

LEAST_RUNS = 3
MARGIN_FRAC = 0.2
MOST_BYTES = 16 << 20  # of the file
_STEP_BYTES = 1 << 30  # so that a job's request rarely changes while it waits
_LAST_RUNS = 10
_MOST_KINDS = 20_000
_MOST_MEMORY_BYTES = 1 << 50
_SCHEMA = "roost.gpu-memory/1"


class GpuMemoryPeaks:
    """The highest use of each of the last runs, by kind; the kinds that ran last are kept.

    Attributes:
        change_count: grows with each note; a file that was written at another count is old.
    """

    def __init__(self) -> None:
        self._peaks_bytes: dict[str, deque[int]] = {}
        # (bytes, for how many runs more) of kinds of which a run outgrew what it counted with.
        self._outgrown: dict[str, tuple[int, int]] = {}
        self.change_count = 0

    def note_run(self, user_id: int, name: str, peak_bytes: int) -> None:
        """Note that a run has ended which used so much of one GPU at most."""
        kind = _kind(user_id, name)
        peaks = self._peaks_bytes.pop(kind, None) or deque[int](maxlen=_LAST_RUNS)
        peaks.append(peak_bytes)
        self._peaks_bytes[kind] = peaks
        self.change_count += 1
        if len(self._peaks_bytes) > _MOST_KINDS:
            del self._peaks_bytes[next(iter(self._peaks_bytes))]
        outgrown_bytes, left_count = self._outgrown.pop(kind, (0, 0))
        if left_count > 1:
            self._outgrown[kind] = outgrown_bytes, left_count - 1

    def note_outgrown(self, user_id: int, name: str, used_bytes: int) -> None:
        """Note that a run, which may still continue, uses more of a GPU than it counted with."""
        kind = _kind(user_id, name)
        known_bytes, _ = self._outgrown.pop(kind, (0, 0))
        self._outgrown[kind] = max(known_bytes, used_bytes), _LAST_RUNS
        self.change_count += 1
        if len(self._outgrown) > _MOST_KINDS:
            del self._outgrown[next(iter(self._outgrown))]

    def run_count(self, user_id: int, name: str) -> int:
        """Return how many of the last runs of a user's jobs of this name have a known use."""
        return len(self._peaks_bytes.get(_kind(user_id, name), ()))

    def need_bytes(self, user_id: int, name: str, stated_bytes: int = 0) -> int:
        """Return what the next run is expected to need of each GPU at most; 0: not known.

        Args:
            user_id: of the job.
            name: of the job.
            stated_bytes: what its user states that it needs; 0: nothing.
        """
        kind = _kind(user_id, name)
        peaks, (used_bytes, _) = self._peaks_bytes.get(kind, ()), self._outgrown.get(kind, (0, 0))
        if len(peaks) >= LEAST_RUNS:
            used_bytes = max(used_bytes, *peaks)
        elif not stated_bytes:
            return 0
        if not stated_bytes:
            return in_steps(int(used_bytes * (1.0 + MARGIN_FRAC)))
        return in_steps(used_bytes) if used_bytes > stated_bytes else stated_bytes

    def text(self) -> str:
        """Return the text of the file."""
        kinds = {kind: list(peaks) for kind, peaks in self._peaks_bytes.items()}
        document = {"schema": _SCHEMA, "kinds": kinds, "outgrown": self._outgrown}
        return json.dumps(document, separators=(",", ":"))


def in_steps(size_bytes: int) -> int:
    """Return a size rounded up to whole GiB."""
    return -(-size_bytes // _STEP_BYTES) * _STEP_BYTES


def read_peaks(text: str) -> GpuMemoryPeaks:
    """Read what `GpuMemoryPeaks.text` returned.

    Raises:
        one of state_file.DAMAGED: it is something else.
    """
    found, document = GpuMemoryPeaks(), json.loads(text)
    if document["schema"] != _SCHEMA:
        raise ValueError(f"want schema {_SCHEMA}, got {document['schema']!r:.60}")
    kinds: Mapping[str, list[int]] = document["kinds"]
    for kind, peaks in islice(kinds.items(), _MOST_KINDS):
        user, _, name = kind.partition(" ")
        for peak_bytes in peaks:
            found.note_run(int(user), name, _bytes(peak_bytes))
    outgrown: Mapping[str, list[int]] = document.get("outgrown", {})  # older files have none
    for kind, (used_bytes, left_count) in islice(outgrown.items(), _MOST_KINDS):
        if not isinstance(left_count, int) or not 0 < left_count <= _LAST_RUNS:
            raise ValueError(f"{left_count!r:.40} is no number of runs")
        found._outgrown[kind] = _bytes(used_bytes), left_count
    found.change_count = 0
    return found


def _bytes(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r:.40} is no number of bytes")
    if not 0 <= value <= _MOST_MEMORY_BYTES:
        raise ValueError(f"no GPU has {value} bytes")
    return value


def _kind(user_id: int, name: str) -> str:
    return f"{user_id} {normalised(name)}"
