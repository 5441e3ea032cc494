"""How well `roostctl eta` is calibrated on a journal of roostd, replayed.

The journal's events are given to an engine like the one that wrote them; at random moments the
queue is played forward from what that engine knows, and the starts and ends that the journal holds
are what the forecasts are compared with. Figures of a `raw_` name are of the plays alone, the
others of what roostd makes of them by the errors of earlier ones. Without `--journal` a journal is
written first: the jobs of a trace, simulated with a stack of roostd at full speed.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from math import inf
from pathlib import Path

import _harness
import numpy as np
from eta import POLL_S, QUIET_FRAC, Tally, complete, forecast_of

from roost_engine.domain.actions import Action
from roost_engine.domain.events import Event, JobEnded, JobStarted
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.forecast.arrival_log import ArrivalLog
from roost_engine.forecast.calibration import Calibration
from roost_engine.forecast.forecast import ForecastConfig
from roost_engine.forecast.snapshot import Snapshot
from roost_engine.plugins.plugins import Plugins
from roost_engine.plugins.stacks import STACKS
from roost_engine.scoring.heuristic import HeuristicScore
from roost_formats.journal.codec import encode
from roost_formats.journal.journal import FILE_NAME, Journal
from roost_formats.journal.records import RunHead, Step
from roost_sim.catalogue.compositions import find_policy
from roost_sim.catalogue.gates import gate_part
from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.replays.recording import ModelShelf, Recording, RepeatedRun, Run
from roost_sim.runs.driver import Driver
from roost_sim.runs.simulation import PARTITION, introduce
from roost_sim.traces.durations import limits_s
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.formats import load_trace
from roost_sim.traces.generator import generate
from roost_sim.traces.workload import arrivals, job_ids
from roost_sim.worlds.world import FullSpeed

_EPOCH_S = 1_800_000_000.0


class RecordedEngine(Engine):
    """An engine that remembers what it was told, and what it answered."""

    def __init__(self, config: EngineConfig, plugins: Plugins) -> None:
        super().__init__(config, plugins.policies(HeuristicScore()))
        self.steps = list[Step]()

    def step(self, event: Event) -> tuple[Action, ...]:
        """See Engine."""
        actions = super().step(event)
        self.steps.append(Step(event, actions))
        return actions


def record(options: argparse.Namespace, folder: Path) -> Path:
    """Simulate a trace, and write a journal as roostd would; returns the file."""
    stack, cluster = STACKS[options.stack], load_cluster(options.cluster)
    trace = generate(HELIOS, options.jobs, options.seed)
    if options.trace is not None:
        trace = load_trace(options.trace).trace
        trace = trace.without_impossible_nodes([node.kind.gpu_count for node in cluster.nodes])
    trace = trace.at_load(options.load, cluster.gpu_count)
    policy = find_policy(options.stack)
    plugins = Plugins(
        stack=stack.name,
        order=stack.order,
        placement=stack.placement,
        gate=gate_part(policy.gate).numbers,
        any_gpus=True,
    )
    config = EngineConfig(patience_s=stack.patience_s)
    engine = RecordedEngine(config, plugins)
    limits = dict(zip(job_ids(trace), limits_s(trace, options.seed).tolist(), strict=True))
    jobs = arrivals(trace, policy.shapes, cluster.largest_node_gpu_count, PARTITION, limit_s=limits)
    Driver(engine, FullSpeed()).run(introduce(cluster), jobs)
    journal = Journal.open(folder)
    head = RunHead(
        version="0.1.0",
        policy=HeuristicScore.name,
        epoch_of_zero_s=_EPOCH_S,
        began_s=0.0,
        config=encode(config),
        plugins=encode(plugins),
        policies=engine.policy_names,
    )
    journal.write([head, *engine.steps])
    journal.close()
    return folder / FILE_NAME


def replayed(
    recording: Recording, run: Run, moment_count: int, seed: int
) -> tuple[list[Snapshot], dict[JobId, tuple[float, float]]]:
    """Replay a run; returns snapshots at random moments, and when each job started and ended."""
    times_s = [recording.event(entry).at_s for entry in recording.entries(run)]
    first_s, span_s = times_s[0], times_s[-1] - times_s[0]
    fracs = np.random.default_rng(seed).uniform(QUIET_FRAC, 1.0 - QUIET_FRAC, moment_count)
    moments = set((first_s + fracs * span_s).tolist())
    due = iter(sorted({*moments, *np.arange(first_s, times_s[-1], POLL_S).tolist()}))
    again = RepeatedRun(recording, run, ModelShelf())
    log, snapshots = ArrivalLog(first_s), list[Snapshot]()
    starts, ends = dict[JobId, float](), dict[JobId, float]()
    next_s = next(due)
    for entry in recording.entries(run):
        event = recording.event(entry)
        while event.at_s > next_s:
            for _ in log.observe(again.engine, next_s):
                pass
            if next_s in moments:
                snapshots.append(complete(again.engine, log, next_s))
            next_s = next(due, np.inf)
        again.step(entry, event)
        if isinstance(event, JobStarted):
            starts.setdefault(event.job_id, event.at_s)
        elif isinstance(event, JobEnded):
            ends[event.job_id] = event.at_s
    return snapshots, {
        job_id: (start_s, ends[job_id]) for job_id, start_s in starts.items() if job_id in ends
    }


def calibrate(options: argparse.Namespace, path: Path) -> dict[str, object]:
    """Return the figures of all runs of a journal."""
    tally, raw, waiting = Tally(), Tally(), list[int]()
    with Recording(path) as recording:
        for run in recording.runs:
            if not run.step_count:
                continue
            snapshots, times = replayed(recording, run, options.moments, options.seed)
            calibration = Calibration()
            for snapshot in snapshots:
                waiting.append(len(snapshot.waiting))
                found = forecast_of(snapshot, ForecastConfig(), options.draws, len(waiting))
                calibration.settle(partial(_started_s, times, snapshot.at_s))
                tally.add(snapshot, calibration.correct(found), times)
                raw.add(snapshot, found, times)
                calibration.note(found)
    if not tally.inside:
        raise SystemExit("no job waits at any of the moments")
    before = {f"raw_{name}": value for name, value in raw.figures().items()}
    return {**tally.figures(), **before, "moments": len(waiting), "waiting_most": max(waiting)}


def _started_s(times: dict[JobId, tuple[float, float]], at_s: float, job_id: JobId) -> float | None:
    """Return when a job started, as it is known at a time; see Calibration.settle."""
    if job_id not in times:
        return None
    start_s = times[job_id][0]
    return start_s if start_s <= at_s else inf


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--journal", type=Path, help="of roostd, instead of a simulated one")
    parser.add_argument("--trace", type=Path, help="to simulate, instead of generated jobs")
    parser.add_argument("--jobs", type=_harness.whole, default=4_000, help="how many are generated")
    parser.add_argument("--cluster", default="venus/3")
    parser.add_argument("--load", type=_harness.number, default=0.9)
    parser.add_argument(
        "--stack",
        choices=("default-no-preemption", "roost-no-preemption"),
        default="roost-no-preemption",
    )
    parser.add_argument("--moments", type=_harness.whole, default=100)
    parser.add_argument("--draws", type=_harness.whole, default=20)
    parser.add_argument("--seed", type=_harness.whole_or_0, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.journal is not None:
        figures = calibrate(options, options.journal)
    else:
        with tempfile.TemporaryDirectory() as folder:
            figures = calibrate(options, record(options, Path(folder)))
    _harness.report({"stack": options.stack, **figures}, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
