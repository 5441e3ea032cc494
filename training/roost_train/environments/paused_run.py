"""One simulation that stops at each decision: which waiting job next, or none.

A job may be chosen if it seems to fit. One that does not may be chosen too, once until something
happens, if it has waited out the engine's patience: the engine then reserves nodes for it, and
later choices must not delay it. So a run of choices is an order of the queue, made job by job.

Engine and simulator are those of every other run; see picked_order for how they are steered.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.node_sets import EVERY_NODE
from roost_engine.domain.events import Tick
from roost_engine.domain.model import JobId, Shape
from roost_engine.job_record import JobRecord
from roost_engine.placement.reservation import Reservation, reserve
from roost_engine.plugins import Policies
from roost_engine.policies import KeyedOrder, OrderPolicy, QueueView, SortKey
from roost_engine.prediction.predictors import Predictors
from roost_engine.queue.selector_features import SelectorFeatures, SelectorInput
from roost_sim.figures.outcome import Outcome
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.runs.simulation import Run, introduce, prepare
from roost_train.environments.decision_run import Choices
from roost_train.environments.picked_order import PickedOrder
from roost_train.environments.rewards import RATES, Reward

WINDOW_COUNT = 128


OrderChoices: TypeAlias = Choices[SelectorInput]


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
        self.seed = run.seed
        self._policies = Policies()
        prepared = prepare(run, self._build)
        self.driver = prepared.driver
        self._engine = prepared.driver.engine
        self._order.attach(self._engine)
        self._rate, self._gpu_count = RATES[reward], run.cluster.gpu_count
        self._may_wait, self._window_count = may_wait, window_count
        self._warm_count, self._keys = warm_count, dict[JobId, SortKey]()
        self._failed: set[tuple[Shape, ...]] = set()
        self._declined = False
        self._reserved: tuple[JobId, Reservation] | None = None
        self._reward, self._counts = 0.0, not warm_count
        self._end_s, self._is_handed_over = inf, False
        assert self._policies.predictors is not None
        self.features = SelectorFeatures(self._policies.predictors)
        self._choices: OrderChoices | None = None
        self._order.free(False)
        self.driver.begin(introduce(run.cluster), prepared.arrivals)

    def _build(self, information: PolicyInformation) -> Policies:
        """Make the policies of the run, with the picked order in place of the teacher."""
        policies = self._run.policy.build(information)
        self._teacher: OrderPolicy = policies.order
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
            found = self._choices_now()
            if found is None:
                if self.driver.now_s >= self._end_s or not self._advance():
                    return None
            elif self.is_warm:
                self._choices = found if self._counts else replace(found, reward=0.0)
                self._counts = True
                return self._choices
            else:
                self._choices = found
                self.choose(self.teachers_choice(found))

    def choose(self, action: int) -> None:
        """Carry a decision out.

        Args:
            action: position of a job in the choices; the position behind the last job: none.

        Raises:
            ValueError: the mask forbids it, or no decision is due.
        """
        choices = self._choices
        if choices is None or not choices.mask[action]:
            raise ValueError(f"action {action} may not be chosen now")
        self._choices = None
        if action == choices.none:
            self._declined = True
            return
        record = self._engine.record(choices.seen.job_ids[action])
        job_id, at_s = record.spec.job_id, self.driver.now_s
        if not choices.seen.fits[action]:
            ends = self._engine.limit_ends(at_s)
            cluster, spec = self._engine.cluster, record.spec
            self._reserved = job_id, reserve(cluster, spec, spec.shapes[0], ends, at_s)
            return
        before = self._engine.decision_count
        self._order.pick(job_id, self._reserved_for(record))
        self.driver.feed(Tick(at_s=at_s))
        self._order.drop_pick()
        if self._engine.decision_count == before:  # it fits by its GPUs, not by all that it needs
            self._failed.add(record.spec.shapes)

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
        allowed = np.flatnonzero(choices.mask[:-1]).tolist()
        records = [self._engine.record(choices.seen.job_ids[place]) for place in allowed]
        teacher = self._teacher
        if isinstance(teacher, KeyedOrder):
            keys = [self._key(teacher, record, choices.at_s) for record in records]
            return int(min(zip(keys, allowed, strict=True))[1])
        view = replace(self._engine.queue_view(choices.at_s), jobs=tuple(records))
        first = teacher.rank(view)[0]
        return choices.seen.job_ids.index(first)

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
        """Return the teacher's key; asked once for each job, as the engine does."""
        key = self._keys.get(record.spec.job_id)
        if key is None:
            key = self._keys[record.spec.job_id] = teacher.key(record, at_s)
        return key

    def _choices_now(self) -> OrderChoices | None:
        if self._declined or self._is_handed_over or self.driver.now_s >= self._end_s:
            return None
        if not self._engine.cluster.free_gpu_count:
            return None
        at_s = self.driver.now_s
        view = self._engine.queue_view(at_s)
        if not view.jobs:
            return None
        fits = self._choosable(view, self.features.fits(view))
        if not fits.any():
            return None
        jobs = self._window(view, fits)
        view = replace(view, jobs=jobs)
        seen = self.features.observe(view)
        mask = np.append(self._choosable(view, seen.fits), self._may_wait)
        if self._reserved is None:
            mask[:-1] |= ~seen.fits & self._impatient(jobs)
        if self._may_wait and not self.driver.has_moments:
            mask[-1] = False  # nothing else would ever happen
        return Choices(at_s=at_s, seen=seen, mask=mask, reward=self.take_reward())

    def _choosable(self, view: QueueView, fits: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which of the jobs that fit may be placed now.

        A job that needs reserved nodes must end in time. Jobs whose kind the engine found no place
        for, a moment ago, are left out.
        """
        if self._failed:
            fits = fits & [record.spec.shapes not in self._failed for record in view.jobs]
        if self._reserved is not None:
            reservation = self._reserved[1]
            beside = self.features.fits(view, EVERY_NODE & ~reservation.nodes)
            in_time = [self._ends_in_time(record, reservation) for record in view.jobs]
            fits = fits & (beside | np.array(in_time, dtype=np.bool_))
        return fits

    def _impatient(self, jobs: Sequence[JobRecord]) -> NDArray[np.bool_]:
        """Return which jobs have nodes reserved for them if they are first in order."""
        limit_s = self.driver.now_s - self._engine.config.patience_s
        return np.array([record.queued_s <= limit_s for record in jobs], dtype=np.bool_)

    def _window(self, view: QueueView, fits: NDArray[np.bool_]) -> Sequence[JobRecord]:
        """Return the jobs to choose from: those that fit, then others, the first that came."""
        if len(view.jobs) <= self._window_count:
            return view.jobs
        order = np.argsort(~fits, kind="stable")[: self._window_count]
        return tuple([view.jobs[place] for place in np.sort(order).tolist()])

    def _advance(self) -> bool:
        """Advance by one moment, and add up the reward until then."""
        driver = self.driver
        before_s = driver.now_s
        rate = self._rate(driver, self._gpu_count)
        self._declined, self._reserved = False, None
        self._failed.clear()
        is_stuck = not (driver.has_moments or self._is_handed_over)
        if is_stuck:  # what the engine does not place by itself now it never will
            self._order.free(True)
        moved = driver.advance()
        if is_stuck:
            self._order.free(False)
        self._reward += rate * (min(driver.now_s, self._end_s) - before_s)
        return moved
