"""Two policies in one slot: a share of the users gets the candidate's decisions, all others not.

The share is drawn by a hash of the user id, so a user is on the same side in every process, after
every restart, and for every larger share too. Page: docs/policies.md.

| slot  | what the candidate decides                                                    |
|-------|-------------------------------------------------------------------------------|
| order | which of the canary users' jobs takes which of the turns that these jobs have |
| gate  | whether a canary user's job waits                                             |
| score | which place a canary user's job takes                                         |

A preemption rule has no canary: it stops the jobs of all users. A placement rule has none either:
jobs with the same request are searched once for all users.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import (
    BoundedOrder,
    GatePolicy,
    GateVerdict,
    NotedOrder,
    Offer,
    OrderPolicy,
    QueueMark,
    QueueView,
    RefreshedOrder,
    ScorePolicy,
    WaitEnded,
)
from roost_engine.policies.slots import name_of

_BUCKETS = 1 << 32  # crc32 has 32 bits


class Slot(StrEnum):
    """The decisions whose policy an operator may replace while the daemon runs."""

    ORDER = "order"
    PLACEMENT = "placement"
    GATE = "gate"
    SCORE = "score"
    PREEMPTION = "preemption"


CANARY_SLOTS = (Slot.ORDER, Slot.GATE, Slot.SCORE)
"""The slots in which two policies can decide side by side."""


@dataclass(frozen=True, slots=True)
class UserShare:
    """A share of the users.

    Attributes:
        frac: 0 to 1.
    """

    frac: float

    def has(self, user_id: int) -> bool:
        """Return whether a user is in the share: user 1000 is at 0.704, in 71 % and not in 70 %."""
        return zlib.crc32(str(user_id).encode()) < self.frac * _BUCKETS


def _name(active: object, candidate: object) -> str:
    return f"{name_of(active)}+{name_of(candidate)}"


class CanaryOrder:
    """The active order, in which the canary users' jobs swap turns among themselves.

    A job of any other user has exactly the turn that the active order gives it.
    Example: active order a B c D with canary users' jobs B and D; the candidate puts D before B:
    the queue is a D c B.
    """

    def __init__(self, active: OrderPolicy, candidate: OrderPolicy, share: UserShare) -> None:
        self._active, self._candidate, self._share = active, candidate, share
        self.name = _name(active, candidate)
        self.longest_wait_s = active.longest_wait_s if isinstance(active, BoundedOrder) else inf

    def rank(self, view: QueueView) -> Sequence[JobId]:
        """See OrderPolicy."""
        ranked = list(self._active.rank(view))
        chosen = {job.job_id for job in view.jobs if self._share.has(job.spec.user_id)}
        if len(chosen) < 2:
            return ranked
        swapped = (job_id for job_id in self._candidate.rank(view) if job_id in chosen)
        return [next(swapped) if job_id in chosen else job_id for job_id in ranked]

    def note(self, job: JobRecord, at_s: float) -> None:
        """See NotedOrder."""
        for order in (self._active, self._candidate):
            if isinstance(order, NotedOrder):
                order.note(job, at_s)

    def is_outdated(self, ranked: QueueMark, now: QueueMark) -> bool:
        """See RefreshedOrder: either order may ask for it."""
        if ranked.arrival_count != now.arrival_count:
            return True
        return any(
            isinstance(order, RefreshedOrder) and order.is_outdated(ranked, now)
            for order in (self._active, self._candidate)
        )


class CanaryGate:
    """Asks the candidate's gate about canary users' jobs; each gate learns from its own side."""

    def __init__(self, active: GatePolicy, candidate: GatePolicy, share: UserShare) -> None:
        self._active, self._candidate, self._share = active, candidate, share
        self.name = _name(active, candidate)

    def decide(self, offer: Offer) -> GateVerdict:
        """See GatePolicy."""
        return self._of(offer.job.spec).decide(offer)

    def note(self, outcome: WaitEnded) -> None:
        """See GatePolicy."""
        self._of(outcome.job.spec).note(outcome)

    def _of(self, job: JobSpec) -> GatePolicy:
        return self._candidate if self._share.has(job.user_id) else self._active


class CanaryScore:
    """Holds two score policies; `Scorer` asks `of`, which knows the user.

    Attributes:
        active: scores for all other users.
        candidate: scores for the users of the share.
        share: of the users.
    """

    def __init__(self, active: ScorePolicy, candidate: ScorePolicy, share: UserShare) -> None:
        self.active, self.candidate, self.share = active, candidate, share
        self.name = active.name

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """See ScorePolicy: the active policy's answer, where no user is known."""
        return self.active.score(features)

    def is_candidate(self, user_id: int) -> bool:
        """Return whether the candidate scores for a user's jobs."""
        return self.share.has(user_id)
