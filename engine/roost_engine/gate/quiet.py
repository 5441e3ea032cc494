"""Waits for a quiet place: GPUs whose neighbours cost less than those offered.

The value test of the delay gate, with what the score of neighbours predicts in place of tiers:

    gain  = run · lost · (1 + crowding · (waiting - 1) · g / G)
    Δ*    = argmax over Δ of gain · P(T ≤ Δ) - weight · E[min(T, Δ)]

lost: the predicted share of its speed that the job loses to neighbours at the place that the score
prefers; 0 where no score of neighbours is in service. T: how long such waits were until there was
a quiet place. All else as in gate.delay, also the caps.
"""

from dataclasses import dataclass, field

from roost_engine.domain.model import JobId
from roost_engine.gate.timers import Timers, TimersState
from roost_engine.gate.waiting_curve import WaitSample
from roost_engine.prediction.speed.job_class import TimerClass

LEAST_LOST_FRAC = 0.05  # less is not worth a wait; and what costs less is a quiet place
_QUIET = 0  # the number of the waiting curves: they are of one kind


@dataclass(slots=True)
class QuietWait:
    """A job's present wait for a quiet place.

    Attributes:
        queued_s: when the wait for GPUs began, which tells it from an earlier wait of the job.
        since_s: when the job first declined a place because of its neighbours.
        timers: class of the job.
        is_quiet: whether the newest offer was a quiet place.
    """

    queued_s: float
    since_s: float
    timers: TimerClass
    is_quiet: bool = False


@dataclass(frozen=True, slots=True)
class QuietState:
    """What was learned, as plain data; open waits are not kept."""

    timers: TimersState = field(default_factory=TimersState)


class QuietWaits:
    """The open waits for quiet places, and what was learned from those that ended.

    Args:
        timers: the waiting curves.
    """

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self._waits: dict[JobId, QuietWait] = {}

    def is_quiet(self, job_id: JobId, lost_frac: float) -> bool:
        """Return whether an offer is a quiet place; the job's open wait notes it."""
        is_quiet = not lost_frac >= LEAST_LOST_FRAC
        if (wait := self._waits.get(job_id)) is not None:
            wait.is_quiet = is_quiet
        return is_quiet

    def begin(self, job_id: JobId, queued_s: float, timers: TimerClass, at_s: float) -> QuietWait:
        """Return the job's present wait; it begins now if there is none."""
        wait = self._waits.get(job_id)
        if wait is None or wait.queued_s != queued_s:
            wait = self._waits[job_id] = QuietWait(queued_s, at_s, timers)
        return wait

    def left_s(
        self, wait: QuietWait, at_s: float, gain_s: float, most_s: float, weight: float
    ) -> float:
        """Return how much longer a wait pays, in seconds; 0: it does not.

        Args:
            wait: so far.
            at_s: engine time.
            gain_s: what a quiet place saves.
            most_s: the longest wait that may pay.
            weight: of a second of waiting against one saved.
        """
        waited_s = at_s - wait.since_s
        curve = self.timers.curve(wait.timers, _QUIET, at_s)
        return curve.best_stop(waited_s, gain_s, most_s - waited_s, weight)

    def note(self, job_id: JobId, queued_s: float, at_s: float) -> None:
        """Learn from a wait that ended, if the job waited for a quiet place."""
        wait = self._waits.pop(job_id, None)
        if wait is None or wait.queued_s != queued_s or at_s <= wait.since_s:
            return
        sample = WaitSample(at_s, at_s - wait.since_s, wait.is_quiet)
        self.timers.add(wait.timers, _QUIET, sample)

    def state(self) -> QuietState:
        """Return what was learned, as plain data."""
        return QuietState(self.timers.state())

    def restore(self, state: QuietState) -> None:
        """Restore what `state` returned, in place of everything learned since."""
        self.timers.restore(state.timers)
        self._waits = {}
