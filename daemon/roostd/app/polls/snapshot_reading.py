"""What one snapshot of Slurm's queue means: read once, in a thread where it is long."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from roost_engine.domain.events import Event
from roost_engine.domain.model import JobId, NodeName
from roostd.app.polls.leased_jobs import LeasedJobs
from roostd.app.polls.operator_view import OperatorView, Shown
from roostd.slurm.jobs import JobReader
from roostd.slurm.port import QueueSnapshot
from roostd.slurm.queue_reading import view
from roostd.slurm.queue_view import SiteView, SlurmQueueView
from roostd.slurm.sync import diff

LONG_QUEUE = 300  # jobs: reading them takes about 5 ms


@dataclass(frozen=True, slots=True)
class SnapshotReading:
    """What one snapshot of the queue means.

    Attributes:
        view: the queue in the engine's terms.
        shown: what operators may ask.
        leases: the leased jobs that Roost may place, those that it will not, and those that have
            the request of a pin.
        events: since the view before.
    """

    view: SlurmQueueView
    shown: Shown
    leases: tuple[Sequence[JobId], Sequence[JobId], frozenset[JobId]]
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class SnapshotReader:
    """A snapshot, and what it is read by.

    Attributes:
        snapshot: of the queue.
        reader: of its jobs.
        gpu_nodes: see queue_reading.view.
        before: the view before.
        at_s: engine time.
        site: Slurm's own rules, and the site's.
    """

    snapshot: QueueSnapshot
    reader: JobReader
    gpu_nodes: Collection[NodeName]
    before: SlurmQueueView
    at_s: float
    site: SiteView

    def read(self, operator_view: OperatorView, leased: LeasedJobs) -> SnapshotReading:
        """Return what the snapshot means; changes nothing, and may run in a thread."""
        found = view(self.snapshot, self.reader, self.gpu_nodes, self.before, self.at_s, self.site)
        return SnapshotReading(
            view=found,
            shown=operator_view.read(self.snapshot, found, self.reader, self.before),
            leases=leased.sort(self.snapshot, found),
            events=diff(self.before, found, self.at_s),
        )

    def read_anew(self, operator_view: OperatorView, leased: LeasedJobs) -> SnapshotReading:
        """Return what the snapshot means, with every job read again."""
        fresh = replace(self, before=replace(self.before, requests={}, reads={}))
        return fresh.read(operator_view, leased)


class Rereading:
    """A reading by settings that have changed, made in a thread before a fresh engine asks for it.

    In the event loop 10,000 jobs took half a second.

    Args:
        operator_view, leased: see SnapshotReader.read.
    """

    def __init__(self, operator_view: OperatorView, leased: LeasedJobs) -> None:
        self._operator_view, self._leased = operator_view, leased
        self._made: tuple[object, SlurmQueueView, SnapshotReading] | None = None

    async def prepare(self, settings: object, asked: SnapshotReader) -> None:
        """Read a long queue by the settings in effect."""
        self._made = None
        if asked.snapshot.is_longer_than(LONG_QUEUE):
            reading = await asyncio.to_thread(asked.read_anew, self._operator_view, self._leased)
            self._made = settings, asked.before, reading

    def take(self, settings: object, asked: SnapshotReader) -> SnapshotReading:
        """Return the prepared reading, or read now where it is out of date."""
        made, self._made = self._made, None
        if made is not None and made[0] == settings and made[1] is asked.before:
            return made[2]
        return asked.read_anew(self._operator_view, self._leased)
