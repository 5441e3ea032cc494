"""The order of a simulation that an agent steers: GPUs are offered to the picked job only.

The engine decides inside `step` and cannot be stopped there. So each decision is made before the
step that carries it out. The engine's own limit on the jobs that one pass tries is the door: with 0
no pass begins, and the queue is left to the next event; with 1 a pass tries the first job in order,
which is the picked one. The engine reads that number at each event, and again after the order was
asked.
"""

from collections.abc import Sequence
from dataclasses import replace

from roost_engine.domain.model import JobId
from roost_engine.engine import Engine
from roost_engine.policies.protocols import OrderPolicy, QueueMark, QueueView, RefreshedOrder


class PickedOrder:
    """An OrderPolicy: the picked job first; without a pick no job has a turn."""

    name = "picked"

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._picked: JobId | None = None
        self._after: JobId | None = None
        self._followed: OrderPolicy | None = None
        self.is_free = False

    def attach(self, engine: Engine) -> None:
        """Steer this engine."""
        self._engine = engine
        self._wide = engine.config
        self._closed = replace(engine.config, window_count=0)
        self._one = replace(engine.config, window_count=1)

    def pick(self, job_id: JobId, after: JobId | None = None) -> None:
        """Let the next pass try this job.

        Args:
            job_id: the job.
            after: a job without capacity that comes first in order: it costs no try, and if it has
                waited out its patience, the picked job gets none of the nodes reserved for it.
        """
        assert self._engine is not None
        self._picked, self._after = job_id, after
        if not self.is_free:
            self._engine.config = self._one

    def drop_pick(self) -> None:
        """Let the next pass try no job."""
        assert self._engine is not None
        self._picked = None
        if not self.is_free:
            self._engine.config = self._closed

    def free(self, is_free: bool) -> None:
        """Let passes try every job, in the order in which they were queued; or no longer."""
        assert self._engine is not None
        self.is_free = is_free
        self._engine.config = self._wide if is_free else self._closed

    def follow(self, order: OrderPolicy) -> None:
        """Let passes try every job in this order from now on."""
        self._followed = order
        self.free(True)

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See policies.OrderPolicy."""
        if self._followed is not None:
            return self._followed.rank(view)
        ids = [record.spec.job_id for record in view.jobs]
        if self._is_open():
            for one in (self._picked, self._after):  # the later comes before the other
                if one in ids:
                    ids.remove(one)
                    ids.insert(0, one)
            self._picked = None
        return ids

    def is_outdated(self, ranked: QueueMark, now: QueueMark) -> bool:
        """See policies.RefreshedOrder; the engine asks at the begin of a pass."""
        if self._followed is not None:
            if isinstance(self._followed, RefreshedOrder):
                return self._followed.is_outdated(ranked, now)
            return ranked.arrival_count != now.arrival_count
        return self._is_open()

    def _is_open(self) -> bool:
        """Set the door for the pass that begins; return whether there is a picked job."""
        if self._engine is not None and not self.is_free:
            self._engine.config = self._closed if self._picked is None else self._one
        return self._picked is not None
