"""What one decision of the engine costs: a job comes, and is placed, on a busy cluster.

The cluster is mixed (bridged pairs, cube mesh, NVSwitch, PCIe), 88 % full, with live load on
every GPU. Figures of a `queue_` name are those of one event while thousands of jobs wait, the
decisions that it brings about included. Those of a `gate_` name are of the delay gate, which knows
a hundred waits of every class; half of the jobs that it is asked about are gangs that fit in no
rack, and half name their model. `gate_share_frac` is the gate's share of the time of all steps in
which a job came.

Those of a `prediction_` name are of run times, by a history of `prediction_kinds` kinds of jobs:
one prediction with the number that the learned order makes of it, and one end to learn from
(`add`). `learned_order_event_us` is the mean of an event under that order while thousands of jobs
wait: a job comes, starts, ends, or its priority has aged; the decisions that follow are included.
`priority_order_event_us` is the same under Slurm's priority, and `learned_order_key_us` the time of
one sort key, prediction included. These are CPU time, the others are wall time.
"""

import argparse
import sys
import time
from collections import Counter
from dataclasses import replace

import _harness
import numpy as np
from _busy_cluster import (
    GANG_EVERY,
    GPUS_PER_NODE,
    busy_engine,
    gpus_of_one_node,
    start_placed,
    waiting_job,
)
from _order_costs import order_events, predictions
from numpy.random import Generator

from roost_engine.domain.actions import Place
from roost_engine.domain.events import JobEnded, JobQueued, JobStarted
from roost_engine.domain.model import JobId
from roost_engine.gate.delay import DelayConfig, DelayGate
from roost_engine.gate.timers import TARGETS
from roost_engine.gate.waiting_curve import WaitSample
from roost_engine.job_record import shares_of
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.protocols import (
    Defer,
    GateVerdict,
    Offer,
    ScorePolicy,
    WaitEnded,
)
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.speed.job_class import ALL_CLASSES
from roost_engine.prediction.speed.speed_table import ModelSpeeds, TableOfSpeeds
from roost_engine.prediction.speed.tier_speeds import TierSpeeds
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import job
from roost_formats.models.score import load_score_policy
from roostd.ops.collector import Collector

GANGS = ((2, 8), (2, 4), (4, 8), (4, 2))  # nodes, GPUs on each
SCATTERED_GANGS = ((8, 8), (12, 4))  # they fit in no rack
MODEL = "bert"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=_harness.whole, default=1250)
    parser.add_argument("--runs", type=_harness.whole, default=2000, help="decisions of each kind")
    parser.add_argument(
        "--waiting", type=_harness.whole_or_0, default=10_000, help="jobs that wait meanwhile"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    onnx, fault = load_score_policy("builtin")
    if fault is not None:
        print(f"decide.py: {fault}", file=sys.stderr)
        return 2
    figures: dict[str, object] = {"nodes": options.nodes, "policy": onnx.name}
    figures |= _decisions("", onnx, options.nodes, options.runs)
    figures |= _decisions("heuristic_", HeuristicScore(), options.nodes, options.runs)
    figures |= _gate_share(options.nodes, options.runs)
    figures |= _queue_passes(options.nodes, options.waiting, min(options.runs, 1000))
    figures |= predictions(options.runs)
    figures |= order_events(options.nodes, options.waiting, min(options.runs, 1000))
    figures["rss_mb"] = _harness.peak_rss_mb()
    _harness.report(figures, as_json=options.json)
    return 0


def _decisions(prefix: str, score: ScorePolicy, node_count: int, runs: int) -> dict[str, object]:
    """Time JobQueued -> Place; between two of them, other jobs end to keep the load level."""
    rng = np.random.default_rng(0)
    engine = busy_engine(node_count, rng, Policies(score=score))
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for run in range(runs):
        is_gang = run % GANG_EVERY == 0
        gang = GANGS[run // GANG_EVERY % len(GANGS)]
        nodes, gpus = gang if is_gang else (1, gpus_of_one_node(rng))
        began_s = time.perf_counter()
        actions = engine.step(JobQueued(at_s=0.0, job=job(f"{run}", gpus=gpus, nodes=nodes)))
        took_s = time.perf_counter() - began_s
        place = next((action for action in actions if isinstance(action, Place)), None)
        if place is not None:
            seconds[is_gang].append(took_s)
            shares = shares_of(place.placement)
            engine.step(JobStarted(at_s=0.0, job_id=place.job_id, shares=shares))
        engine.step(JobEnded(at_s=0.0, job_id=JobId(f"{run}")))
    if not seconds[False] or not seconds[True]:
        raise SystemExit(f"decide.py: nothing fits on {node_count} nodes; want more")
    every_s = seconds[False] + seconds[True]
    return {
        f"{prefix}p50_ms": _ms(every_s, 50),
        f"{prefix}p99_ms": _ms(every_s, 99),
        f"{prefix}single_node_p50_ms": _ms(seconds[False], 50),
        f"{prefix}gang_p50_ms": _ms(seconds[True], 50),
        f"{prefix}gang_p99_ms": _ms(seconds[True], 99),
        f"{prefix}decisions": len(every_s),
    }


def _queue_passes(node_count: int, waiting_count: int, runs: int) -> dict[str, object]:
    """Time the end of a job, and the coming of one, while thousands wait past their patience.

    Python's garbage collector is in the charge of roostd's: else one end in a hundred is a scan of
    all jobs, which takes ten times as long as any end.
    """
    with Collector(lambda: 0):
        return _timed_passes(node_count, waiting_count, runs)


def _timed_passes(node_count: int, waiting_count: int, runs: int) -> dict[str, object]:
    rng = np.random.default_rng(1)
    engine = busy_engine(node_count, rng, Policies(score=HeuristicScore()))
    running = [job_id for job_id, _ in engine.records()]
    queued_s, ended_s, placed_counts = list[float](), list[float](), Counter[int]()
    number = 0
    while len(engine.waiting()) < waiting_count:
        gpus = GPUS_PER_NODE if number % 3 else gpus_of_one_node(rng)
        actions = engine.step(JobQueued(at_s=float(number), job=waiting_job(number, gpus, rng)))
        running += start_placed(engine, actions, float(number))
        number += 1
    for run in range(runs):
        at_s = float(number + run)
        ending = running.pop(int(rng.integers(len(running))))
        began_s = time.perf_counter()
        actions = engine.step(JobEnded(at_s=at_s, job_id=ending))
        ended_s.append(time.perf_counter() - began_s)
        started = start_placed(engine, actions, at_s)
        placed_counts[len(started)] += 1
        running += started
        event = JobQueued(at_s=at_s, job=waiting_job(number + run, gpus_of_one_node(rng), rng))
        began_s = time.perf_counter()
        actions = engine.step(event)
        queued_s.append(time.perf_counter() - began_s)
        running += start_placed(engine, actions, at_s)
    return {
        "queue_waiting": len(engine.waiting()),
        "queue_job_ended_p50_ms": _ms(ended_s, 50),
        "queue_job_ended_p99_ms": _ms(ended_s, 99),
        "queue_job_ended_mean_ms": round(float(np.mean(ended_s)) * 1000, 3),
        "queue_job_queued_p50_ms": _ms(queued_s, 50),
        "queue_job_queued_p99_ms": _ms(queued_s, 99),
        "queue_placed_per_end": round(
            sum(count * times for count, times in placed_counts.items()) / runs, 3
        ),
    }


class _TimedGate:
    """A delay gate that keeps the time of each answer."""

    def __init__(self, gate: DelayGate) -> None:
        self._gate = gate
        self.seconds: list[float] = []
        self.defer_count = 0

    def decide(self, offer: Offer) -> GateVerdict:
        began_s = time.perf_counter()
        verdict = self._gate.decide(offer)
        self.seconds.append(time.perf_counter() - began_s)
        self.defer_count += isinstance(verdict, Defer)
        return verdict

    def note(self, outcome: WaitEnded) -> None:
        began_s = time.perf_counter()
        self._gate.note(outcome)
        self.seconds.append(time.perf_counter() - began_s)


def _gate_share(node_count: int, runs: int) -> dict[str, object]:
    """Time the gate inside the steps of coming jobs."""
    rng = np.random.default_rng(2)
    gate = _TimedGate(_learned_gate(rng))
    engine = busy_engine(node_count, rng, Policies(score=HeuristicScore(), gate=gate))
    steps_s, gate_s, at_s = list[float](), 0.0, 0.0
    for run in range(runs):
        at_s += 10.0
        nodes, gpus = SCATTERED_GANGS[run // 2 % 2] if run % 2 else (1, gpus_of_one_node(rng))
        spec = job(f"{run}", gpus=gpus, nodes=nodes, time_limit_s=86_400.0)
        spec = replace(spec, model=MODEL if run % 4 < 2 else "", name=f"job{run % 50}")
        gate.seconds.clear()
        began_s = time.perf_counter()
        actions = engine.step(JobQueued(at_s=at_s, job=spec))
        steps_s.append(time.perf_counter() - began_s)
        gate_s += sum(gate.seconds)
        start_placed(engine, actions, at_s)
        engine.step(JobEnded(at_s=at_s, job_id=spec.job_id))
    return {
        "gate_step_p50_ms": _ms(steps_s, 50),
        "gate_step_p99_ms": _ms(steps_s, 99),
        "gate_mean_us": round(gate_s / runs * 1e6, 2),
        "gate_share_frac": round(gate_s / sum(steps_s), 4),
        "gate_deferred": gate.defer_count,
    }


def _learned_gate(rng: Generator) -> DelayGate:
    """A gate with a table of speeds, that knows a hundred waits of each class and tier."""
    speeds = TierSpeeds(1.0, 0.7, 0.5)
    rows = (ModelSpeeds(model=MODEL, gpu_count=8, speeds=speeds),)
    gate = DelayGate(DelayConfig(idle_frac=1.0), Predictors(TableOfSpeeds(rows)))
    for timers in ALL_CLASSES:
        for target in TARGETS:
            for waited_s in rng.exponential(600.0, 100):
                gate.timers.add(
                    timers, target, WaitSample(0.0, float(waited_s), bool(rng.random() < 0.7))
                )
    return gate


def _ms(seconds: list[float], percent: float) -> float:
    return round(_harness.percentile(seconds, percent) * 1000, 4)


if __name__ == "__main__":
    sys.exit(main())
