"""What the learned order costs: predictions, ends to learn from, events while thousands wait.

All times are CPU time, of one thread and without I/O: other programs on the machine count little.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import _harness
import numpy as np
from _busy_cluster import GPUS_PER_NODE, busy_engine, gpus_of_one_node, start_placed, waiting_job
from numpy.random import Generator

from roost_engine.domain.events import Event, JobChanged, JobEnded, JobQueued
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.engine import Engine
from roost_engine.job_record import JobRecord
from roost_engine.plugins.plugins import Plugins, Policies
from roost_engine.plugins.stacks import OrderKind
from roost_engine.policies.heuristics import ranked_by_key
from roost_engine.policies.protocols import QueueView, SortKey
from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.prediction.service import expected_s
from roost_engine.queue.learned_order import LearnedOrder, LearnedOrderConfig
from roost_engine.scoring.heuristic import HeuristicScore

# A history of about 2,000 kinds: users with a few names each, in a few sizes.
KNOWN_USERS, KNOWN_NAMES, KNOWN_ENDS = 30, 4, 8_000
LIMITS_S = (3_600.0, 86_400.0, 604_800.0)


def predictions(runs: int) -> dict[str, object]:
    """Time predictions of run times, and learning from ends."""
    rng = np.random.default_rng(3)
    history = RunTimeHistory()
    ended_s = [_learn(history, number, rng) for number in range(KNOWN_ENDS)]
    config = LearnedOrderConfig()
    took_s = list[float]()
    for number in range(runs):
        spec = _of_known_user(waiting_job(number, gpus_of_one_node(rng), rng), rng)
        began_s = time.thread_time()
        expected_s(history.times(spec, 0.0, float(KNOWN_ENDS)), config.index)
        took_s.append(time.thread_time() - began_s)
    return {
        "prediction_kinds": len(history.state().kinds),
        "prediction_us": _mean_us(took_s),
        "prediction_p99_us": round(_harness.percentile(took_s, 99) * 1e6, 1),
        "prediction_add_us": _mean_us(ended_s[KNOWN_ENDS // 2 :]),
    }


def order_events(node_count: int, waiting_count: int, runs: int) -> dict[str, object]:
    """Time events while thousands wait, under Slurm's priority and under the learned order."""
    learned = Plugins(order=OrderKind.LEARNED).policies(HeuristicScore())
    assert learned.predictors is not None
    assert isinstance(learned.order, LearnedOrder)
    rng = np.random.default_rng(4)
    for number in range(KNOWN_ENDS):
        _learn(learned.predictors.history, number, rng)
    timed = _TimedOrder(learned.order)
    plain_s = _event_s(Policies(score=HeuristicScore()), node_count, waiting_count, runs)
    learned_s = _event_s(replace(learned, order=timed), node_count, waiting_count, runs)
    return {
        "priority_order_event_us": _mean_us(plain_s),
        "learned_order_event_us": _mean_us(learned_s),
        "learned_order_event_p99_us": round(_harness.percentile(learned_s, 99) * 1e6, 1),
        "learned_order_key_us": _mean_us(timed.seconds),
    }


class _TimedOrder:
    """A learned order that keeps how long each key took."""

    name = "learned"

    def __init__(self, order: LearnedOrder) -> None:
        self._order = order
        self.seconds = list[float]()

    def rank(self, view: QueueView) -> Sequence[JobId]:
        return ranked_by_key(self, view)

    def key(self, job: JobRecord, at_s: float) -> SortKey:
        began_s = time.thread_time()
        found = self._order.key(job, at_s)
        self.seconds.append(time.thread_time() - began_s)
        return found


def _event_s(policies: Policies, node_count: int, waiting_count: int, runs: int) -> Sequence[float]:
    """Return how long each event took: ends, starts, arrivals and changes in turn."""
    rng = np.random.default_rng(5)
    engine = busy_engine(node_count, rng, policies)
    running = [job_id for job_id, _ in engine.records()]
    number = 0
    while len(engine.waiting()) < waiting_count:
        gpus = GPUS_PER_NODE if number % 3 else gpus_of_one_node(rng)
        spec = _of_known_user(waiting_job(number, gpus, rng), rng)
        actions = engine.step(JobQueued(at_s=float(number), job=spec))
        running += start_placed(engine, actions, float(number))
        number += 1
    clock = _TimedEngine(engine)
    for at_s in map(float, range(number, number + runs)):
        ending = running.pop(int(rng.integers(len(running))))
        running += clock.step(JobEnded(at_s=at_s, job_id=ending))
        spec = _of_known_user(waiting_job(int(at_s), gpus_of_one_node(rng), rng), rng)
        running += clock.step(JobQueued(at_s=at_s, job=spec))
        waiting = engine.waiting()
        aged = waiting[int(rng.integers(len(waiting)))]
        spec = engine.record(aged).spec
        spec = replace(spec, priority=spec.priority + int(rng.integers(1, 1000)))
        running += clock.step(JobChanged(at_s=at_s, job=spec))
    return clock.seconds


class _TimedEngine:
    """An engine that keeps how long each event took, with the starts that follow from it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.seconds = list[float]()

    def step(self, event: Event) -> list[JobId]:
        """Apply an event and start what was placed; return these jobs."""
        began_s = time.thread_time()
        actions = self._engine.step(event)
        started = start_placed(self._engine, actions, event.at_s)
        took_s = time.thread_time() - began_s
        self.seconds += [took_s / (1 + len(started))] * (1 + len(started))
        return started


def _learn(history: RunTimeHistory, number: int, rng: Generator) -> float:
    """Let a job run and end; return how long the history took to learn from that, in seconds."""
    spec = _of_known_user(waiting_job(number, gpus_of_one_node(rng), rng), rng)
    at_s, run_s = float(number), float(rng.lognormal(6.0, 2.0))
    history.begin(spec, 0.0, 1.0, at_s - run_s)
    began_s = time.thread_time()
    history.add(spec, run_s, at_s)
    return time.thread_time() - began_s


def _of_known_user(spec: JobSpec, rng: Generator) -> JobSpec:
    """Let a job belong to one of the users, and have one of their names and limits."""
    user, name = int(rng.integers(KNOWN_USERS)), int(rng.integers(KNOWN_NAMES))
    limit_s = LIMITS_S[(user + name) % len(LIMITS_S)]
    return replace(
        spec,
        user_id=user,
        name=f"train-{'pqrstu'[name] * 3}-{spec.job_id}",
        account=f"a{user % 9}",
        qos="normal",
        time_limit_s=limit_s,
    )


def _mean_us(seconds: Sequence[float]) -> float:
    return round(float(np.mean(seconds)) * 1e6, 1)
