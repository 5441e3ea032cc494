"""Whole simulations ordered by a job selector as roostd would use it: what an evolution compares.

An episode is simulated as any other run, with `queue.selector.SelectorOrder` in the place of its
policy's order. So what is searched is what production does: the queue is ranked once a pass, at
most so many jobs of it, and no job waits beyond the bound.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import active_children, get_context
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from roost_engine.plugins.plugins import Policies
from roost_engine.prediction.predictors import Predictors
from roost_engine.queue.selector import RankModel, SelectorOrder
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.runs.simulation import introduce, prepare
from roost_sim.sweeps.process_engine import end_with_parent, without_interrupts
from roost_train.environments.episodes import Episodes
from roost_train.errors import TrainError

_COLLECT_EVERY = 100_000  # objects

Floats = NDArray[np.float32]
Queue: TypeAlias = tuple[Floats, Floats]  # what a selector reads: the jobs, the cluster


def mean_jct_s(episodes: Episodes, seed: int, model: RankModel | None) -> float:
    """Return the mean completion time of the jobs of an episode that count.

    Args:
        episodes: what is simulated.
        seed: of the episode.
        model: orders the jobs; None: the order of the episodes' teacher does.
    """
    run = episodes.run(seed)

    def build(information: PolicyInformation) -> Policies:
        policies = run.policy.build(information)
        if model is None:
            return policies
        predictors = policies.predictors or Predictors()
        return replace(policies, order=SelectorOrder(model, predictors), predictors=predictors)

    prepared = prepare(run, build)
    outcome = prepared.driver.run(introduce(run.cluster), prepared.arrivals)
    ended = [job for job in outcome.jobs[episodes.warm_count :] if job.ended_s is not None]
    return float(np.mean([job.ended_s - job.submit_s for job in ended if job.ended_s is not None]))


class RecordingModel:
    """A queue.selector.RankModel that keeps some of the queues that another one has ranked.

    Args:
        model: ranks.
        every: one queue in so many is kept, of those with two jobs or more.
    """

    def __init__(self, model: RankModel, every: int = 5) -> None:
        self.name, self._model, self._every = model.name, model, every
        self._seen_count = 0
        self.queues = list[Queue]()

    def ranks(self, jobs: Floats, cluster: Floats) -> Floats:
        """See RankModel."""
        if len(jobs) > 1:
            self._seen_count += 1
            if self._seen_count % self._every == 0:
                self.queues.append((jobs, cluster))
        return self._model.ranks(jobs, cluster)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One simulation.

    Attributes:
        seed: of the episode; it says which of the episodes, too.
        model: see mean_jct_s.
    """

    seed: int
    model: RankModel | None


_known: Mapping[str, Sequence[Episodes]] = {}  # of this worker process


def _learn(known: Mapping[str, Sequence[Episodes]]) -> None:
    global _known
    _known = known
    gc.set_threshold(_COLLECT_EVERY)  # a run makes hardly any cycles; see simulation.simulate
    end_with_parent()  # the pool's own workers wait for ever then


def _perform(name: str, case: Case) -> float:
    return mean_jct_s(_of_seed(_known[name], case.seed), case.seed, case.model)


def _of_seed(played: Sequence[Episodes], seed: int) -> Episodes:
    return played[seed % len(played)]


@dataclass(frozen=True, slots=True, eq=False)
class SelectorRuns:
    """Simulates cases, in worker processes if there are some.

    Attributes:
        name: of these episodes among all that the workers know.
        played: the episodes; those of a seed are played[seed % len(played)].
        pool: workers that know the episodes; None: this process simulates.
    """

    name: str
    played: Sequence[Episodes]
    pool: ProcessPoolExecutor | None = None

    def of_seed(self, seed: int) -> Episodes:
        """Return the episodes that a seed is of."""
        return _of_seed(self.played, seed)

    def jcts_s(self, cases: Sequence[Case]) -> list[float]:
        """Return the mean completion time of each case.

        Raises:
            TrainError: a worker was killed.
        """
        if self.pool is not None:
            try:
                with without_interrupts():  # the pool starts its workers here
                    futures = [self.pool.submit(_perform, self.name, one) for one in cases]
                # Not map: at Ctrl-C it cancels the rest, which the pool's thread fails at (3.11).
                return [future.result() for future in futures]
            except BrokenProcessPool as error:
                raise TrainError(
                    "a worker process was killed: take fewer --processes if memory was short"
                ) from error
        return [mean_jct_s(self.of_seed(one.seed), one.seed, one.model) for one in cases]


@contextmanager
def selector_runs(
    known: Mapping[str, Sequence[Episodes]], process_count: int
) -> Iterator[Mapping[str, SelectorRuns]]:
    """Give what simulates these episodes, by name, in so many processes; 1: in this one alone.

    An exception of the block, Ctrl-C too, ends the processes at once: a case may take minutes.
    """
    if process_count == 1:
        yield {name: SelectorRuns(name, played) for name, played in known.items()}
        return
    others = set(active_children())
    with ProcessPoolExecutor(
        process_count, get_context("spawn"), initializer=_learn, initargs=(known,)
    ) as pool:
        try:
            yield {name: SelectorRuns(name, played, pool) for name, played in known.items()}
        except BaseException:
            for worker in set(active_children()) - others:
                worker.terminate()
            raise
