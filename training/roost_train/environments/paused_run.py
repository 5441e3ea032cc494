"""One simulation that stops at each decision: which waiting job next, or none.

A job may be chosen if it seems to fit. A job that does not fit may be chosen too, once until
something happens, if it has waited out the engine's patience: the engine then reserves nodes for
it, and later choices must not delay it. So a run of choices is an order of the queue, made job by
job. Where only one action is allowed, it is carried out and no decision is due.

Engine and simulator are those of every other run; see picked_order for how they are steered.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.node_sets import EVERY_NODE, NodeSet
from roost_engine.domain.events import Tick
from roost_engine.domain.model import JobId, Shape
from roost_engine.domain.value import value
from roost_engine.job_record import JobRecord
from roost_engine.placement.reservation import Reservation, reserve
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.protocols import (
    KeyedOrder,
    OrderPolicy,
    QueueView,
    RekeyedOrder,
    SortKey,
)
from roost_engine.prediction.predictors import Predictors
from roost_engine.queue.selector_features import SelectorFeatures, SelectorInput, are_same
from roost_sim.figures.outcome import Outcome
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.runs.simulation import Run, introduce, prepare
from roost_train.environments.decision_run import Choices
from roost_train.environments.picked_order import PickedOrder
from roost_train.environments.rewards import RATES, Reward

WINDOW_COUNT = 128


OrderChoices: TypeAlias = Choices[SelectorInput]
_Kind: TypeAlias = tuple[NodeSet, tuple[Shape, ...]]


@value(eq=False)
class _Turn:
    """What may be chosen now, not yet described.

    Attributes:
        view: the queue, or the part of it that is shown.
        fits: bool [job].
        mask: bool [job + 1]; the last is "none".
        is_whole: whether the view has the whole queue.
    """

    view: QueueView
    fits: NDArray[np.bool_]
    mask: NDArray[np.bool_]
    is_whole: bool


class PausedRun:
    """A decision_run.DecisionRun; see the module.

    Args:
        run: what to simulate. Its policy's order is the teacher; an agent takes its place.
        reward: what is added up between decisions.
        may_wait: whether "none" may be chosen while a job fits.
        window_count: the most jobs to choose from; those that fit and came first.
        warm_count: the teacher decides until so many jobs have arrived, and nothing counts.
    """

    def __init__(
        self,
        run: Run,
        reward: Reward = Reward.COMPLETION,
        *,
        may_wait: bool = False,
        window_count: int = WINDOW_COUNT,
        warm_count: int = 0,
    ) -> None:
        self._order, self._run = PickedOrder(), run
        self.seed, self.forced_count = run.seed, 0
        self._policies = Policies()
        prepared = prepare(run, self._build)
        self.driver = prepared.driver
        self._engine = prepared.driver.engine
        self._order.attach(self._engine)
        self._rate, self._gpu_count = RATES[reward], run.cluster.gpu_count
        self._may_wait, self._window_count = may_wait, window_count
        self._warm_count = warm_count
        self._keys = dict[JobId, tuple[int, SortKey]]()  # by the teacher's generation
        self._failed: set[_Kind] = set()
        self._declined = False
        self._reserved: tuple[JobId, Reservation] | None = None
        self._reward, self._counts = 0.0, not warm_count
        self._end_s, self._is_handed_over = inf, False
        assert self._policies.predictors is not None
        self.features = SelectorFeatures(self._policies.predictors)
        self._turn: _Turn | None = None
        self._seen: SelectorInput | None = None  # of this moment, if nothing has been placed since
        # A queue of which nothing fitted, and the cluster's change_count then.
        self._none_fits: tuple[Sequence[JobRecord], int] | None = None
        self._order.free(False)
        self.driver.begin(introduce(run.cluster), prepared.arrivals)

    def _build(self, information: PolicyInformation) -> Policies:
        """Make the policies of the run, with the picked order in place of the teacher."""
        policies = self._run.policy.build(information)
        self._teacher: OrderPolicy = policies.order
        self._rekeyed = policies.order if isinstance(policies.order, RekeyedOrder) else None
        predictors = policies.predictors or Predictors()
        self._policies = replace(policies, order=self._order, predictors=predictors)
        return self._policies

    @property
    def is_warm(self) -> bool:
        """Whether enough jobs have arrived for decisions to count."""
        return self.driver.arrived_count >= self._warm_count

    def next_choices(self) -> OrderChoices | None:
        """Advance to the next decision; None: every job has ended, or the run is to end here."""
        while True:
            turn = self._turn = self._turn_now()
            if turn is None:
                if self.driver.now_s >= self._end_s or not self._advance():
                    return None
            elif not self.is_warm:
                self.choose(self._teachers_choice(turn.view, turn.mask))
            elif np.count_nonzero(turn.mask) == 1:
                self.forced_count += 1
                self.choose(int(turn.mask.argmax()))
            else:
                return self._described(turn)

    def _described(self, turn: _Turn) -> OrderChoices:
        seen = self._seen
        if seen is None:
            seen = self.features.observe(turn.view, fits=turn.fits)
            self._seen = seen if turn.is_whole else None
        reward = self.take_reward()
        if not self._counts:
            reward, self._counts = 0.0, True
        return Choices(at_s=turn.view.at_s, seen=seen, mask=turn.mask, reward=reward)

    def choose(self, action: int) -> None:
        """Carry a decision out.

        Args:
            action: position of a job in the choices; the position behind the last job: none.

        Raises:
            ValueError: the mask forbids it, or no decision is due.
        """
        turn = self._turn
        if turn is None or not turn.mask[action]:
            raise ValueError(f"action {action} may not be chosen now")
        self._turn = None
        if action == len(turn.view.jobs):
            self._declined = True
            return
        record = turn.view.jobs[action]
        job_id, at_s = record.spec.job_id, self.driver.now_s
        if not turn.fits[action]:
            ends = self._engine.limit_ends(at_s)
            cluster, spec = self._engine.cluster, record.spec
            self._reserved = (
                job_id,
                reserve(cluster, spec, spec.shapes[0], ends, at_s, self._engine.nodes_for(spec)),
            )
            return
        before, self._seen = self._engine.decision_count, None
        self._order.pick(job_id, self._reserved_for(record))
        self.driver.feed(Tick(at_s=at_s))
        self._order.drop_pick()
        if self._engine.decision_count == before:  # it fits by its GPUs, not by all that it needs
            self._failed.add(self._kind_of(record))

    def _reserved_for(self, record: JobRecord) -> JobId | None:
        """Return the job that has nodes reserved, unless this job ends before it needs them."""
        if self._reserved is None or self._ends_in_time(record, self._reserved[1]):
            return None
        return self._reserved[0]

    def _ends_in_time(self, record: JobRecord, reservation: Reservation) -> bool:
        limit_s = record.spec.time_limit_s
        return limit_s is not None and self.driver.now_s + limit_s <= reservation.start_s

    def teachers_choice(self, choices: OrderChoices) -> int:
        """Return the action of the order that the run's policy has."""
        assert self._turn is not None, "no decision is due"
        return self._teachers_choice(self._turn.view, choices.mask)

    def _teachers_choice(self, view: QueueView, mask: NDArray[np.bool_]) -> int:
        allowed = np.flatnonzero(mask[:-1]).tolist()
        records = [view.jobs[place] for place in allowed]
        teacher = self._teacher
        if isinstance(teacher, KeyedOrder):
            keys = [self._key(teacher, record, view.at_s) for record in records]
            return int(min(zip(keys, allowed, strict=True))[1])
        first = teacher.rank(replace(view, jobs=tuple(records)))[0]
        return allowed[[record.spec.job_id for record in records].index(first)]

    def end_at(self, at_s: float) -> None:
        """Let the run end at a time, whatever is still to come then; nothing later is counted."""
        self._end_s = at_s

    def hand_over(self) -> None:
        """Let the engine decide by the teacher from now on; no decision is due any more."""
        self._is_handed_over = True
        self._order.follow(self._teacher)
        self.driver.feed(Tick(at_s=self.driver.now_s))

    def finish(self) -> Outcome:
        """Return the results of a run that is over."""
        return self.driver.finish()

    def close(self) -> None:
        """Give up a run that is not over; it holds nothing that must be given back."""

    def take_reward(self) -> float:
        """Return what was added up since the last call of this, or the last choices."""
        reward, self._reward = self._reward, 0.0
        return reward

    def _key(self, teacher: KeyedOrder, record: JobRecord, at_s: float) -> SortKey:
        """Return the teacher's key; asked as the engine asks: once, and when all keys change."""
        job_id, rekeyed = record.spec.job_id, self._rekeyed
        generation = 0 if rekeyed is None else rekeyed.generation
        known = self._keys.get(job_id)
        if known is None:
            known = self._keys[job_id] = generation, teacher.key(record, at_s)
        elif rekeyed is not None and known[0] != generation:
            known = self._keys[job_id] = generation, rekeyed.key_again(record, at_s)
        return known[1]

    def _turn_now(self) -> _Turn | None:
        at_s, cluster = self.driver.now_s, self._engine.cluster
        if self._declined or self._is_handed_over or at_s >= self._end_s:
            return None
        if not cluster.free_gpu_count:
            return None
        view = self._engine.queue_view(at_s)
        if not view.jobs or self._is_known_unfit(view.jobs, cluster.change_count):
            return None
        fits = self._fits(view) if self._seen is None else self._seen.fits
        if not np.count_nonzero(fits):
            self._none_fits = view.jobs, cluster.change_count
            return None
        choosable = self._choosable(view, fits)
        if not np.count_nonzero(choosable):
            return None
        is_whole = len(view.jobs) <= self._window_count
        if not is_whole:
            shown = np.sort(np.argsort(~choosable, kind="stable")[: self._window_count])
            view = replace(view, jobs=tuple([view.jobs[place] for place in shown.tolist()]))
            fits, choosable = fits[shown], choosable[shown]
        mask = np.empty(len(fits) + 1, dtype=np.bool_)
        mask[:-1] = choosable
        if self._reserved is None and np.count_nonzero(fits) < len(fits):
            mask[:-1] |= ~fits & self._impatient(view.jobs)
        mask[-1] = self._may_wait and self.driver.has_moments  # otherwise nothing would happen
        return _Turn(view, fits, mask, is_whole)

    def _is_known_unfit(self, jobs: Sequence[JobRecord], change_count: int) -> bool:
        """Return whether none of these jobs fitted before, in the same state of the cluster.

        Each placement is followed by the start of its job, which changes neither.
        """
        if self._none_fits is None or self._none_fits[1] != change_count:
            return False
        return are_same(self._none_fits[0], jobs)

    def _choosable(self, view: QueueView, fits: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which of the jobs that fit may be placed now.

        A job that needs reserved nodes must end in time. Jobs whose kind the engine found no place
        for, a moment ago, are left out.
        """
        if self._failed:
            fits = fits & [self._kind_of(record) not in self._failed for record in view.jobs]
        if self._reserved is not None:
            reservation = self._reserved[1]
            beside = self._fits(view, EVERY_NODE & ~reservation.nodes)
            fits = fits.copy()
            for place in np.flatnonzero(fits & ~beside).tolist():
                fits[place] = self._ends_in_time(view.jobs[place], reservation)
        return fits

    def _fits(self, view: QueueView, nodes: NodeSet = EVERY_NODE) -> NDArray[np.bool_]:
        """Return which jobs seem to fit on these nodes, each on those of its agent."""
        if self._engine.config.agents == 1:
            return self.features.fits(view, nodes)
        own = [self._engine.nodes_for(record.spec) for record in view.jobs]
        found = np.zeros(len(own), dtype=np.bool_)
        for part in dict.fromkeys(own):
            mine = np.array([one == part for one in own])
            found |= mine & self.features.fits(view, nodes & part)
        return found

    def _kind_of(self, record: JobRecord) -> _Kind:
        """Return the kind of a job: where one job of a kind finds no place, no other one does."""
        return self._engine.nodes_for(record.spec), record.spec.shapes

    def _impatient(self, jobs: Sequence[JobRecord]) -> NDArray[np.bool_]:
        """Return which jobs have nodes reserved for them if they are first in order."""
        limit_s = self.driver.now_s - self._engine.config.patience_s
        return np.array([record.queued_s <= limit_s for record in jobs], dtype=np.bool_)

    def _note_arrival(self) -> None:
        """Ask what is expected of the job that has come, also where nothing can be decided now.

        The engine asks when a job is queued. What is learned of jobs like it until the first
        decision would give it another key, and the selector another description.
        """
        view = self._engine.queue_view(self.driver.now_s)
        if not view.jobs:
            return
        if not view.cluster.free_gpu_count:  # else it is described for the decision of this moment
            self._fits(view)
        if isinstance(self._teacher, KeyedOrder):
            self._key(self._teacher, view.jobs[-1], view.at_s)

    def _advance(self) -> bool:
        """Advance by one moment, and add up the reward until then."""
        driver = self.driver
        before_s, self._seen = driver.now_s, None
        rate = self._rate(driver, self._gpu_count)
        self._declined, self._reserved = False, None
        self._failed.clear()
        is_stuck = not (driver.has_moments or self._is_handed_over)
        if is_stuck:  # what the engine does not place by itself now it never will
            self._order.free(True)
        arrived_count = driver.arrived_count
        moved = driver.advance()
        if is_stuck:
            self._order.free(False)
        if driver.arrived_count > arrived_count and not self._is_handed_over:
            self._note_arrival()
        self._reward += rate * (min(driver.now_s, self._end_s) - before_s)
        return moved
