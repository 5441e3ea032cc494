"""The command `roost-train selector`: train a policy of one slot by simulation."""

import argparse
import json
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.sweeps.process_engine import core_count
from roost_sim.traces.formats import load_trace
from roost_train.commands.interruption import stopped
from roost_train.errors import TrainError
from roost_train.progress import ProgressBar

if TYPE_CHECKING:
    from roost_train.improvement.rollout_engine import RolloutEngine


def add_selector(selector: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    selector.add_argument(
        "--trace", type=Path, metavar="FILE", required=True, help="any trace of roost-sim"
    )
    selector.add_argument(
        "--slot",
        choices=("order", "placement", "gate"),
        help="which decision is trained: the next job, where it runs, or whether it waits for a"
        " closer place (default: as configured)",
    )
    selector.add_argument(
        "--until",
        type=float,
        metavar="FRAC",
        default=1.0,
        help="train on the first part of the trace, this share of its time (default: all of it)",
    )
    selector.add_argument(
        "--cluster",
        action="append",
        required=True,
        metavar="NAME",
        help="a preset of roost-sim or a file; once for each cluster to train on",
    )
    selector.add_argument(
        "--out", type=Path, metavar="DIR", required=True, help="folder for all files"
    )
    selector.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="YAML; docs/learned.md has its keys and their defaults",
    )
    selector.add_argument(
        "--start",
        type=Path,
        metavar="FILE",
        help="improve this selector.onnx, its manifest beside it, instead of a warm start",
    )
    selector.add_argument(
        "--engine",
        choices=("process", "ray"),
        default="process",
        help="where episodes are played: in this process, or on a Ray cluster (default process)",
    )
    selector.add_argument(
        "--ray-address",
        metavar="ADDRESS",
        help='the Ray cluster to use, or "auto" (default: one is started here)',
    )
    selector.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="cores for the Ray that is started here (default: all)",
    )
    selector.add_argument("--json", action="store_true", help="the result as JSON")
    selector.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Train, or continue what was begun in the folder; 130 when it was stopped."""
    from roost_train.environments.slot_run import Slot
    from roost_train.selector.config import read_config
    from roost_train.selector.training import SelectorTraining

    if not 0 < arguments.until <= 1:
        raise TrainError(f"--until {arguments.until:g}: want above 0 to 1")
    trace = load_trace(arguments.trace).trace
    trace = trace.window(0.0, float(trace.submit_s[-1]) * arguments.until + 1.0)
    clusters = tuple(load_cluster(name) for name in arguments.cluster)
    config = read_config(arguments.config)
    if arguments.slot is not None:
        config = replace(config, episodes=replace(config.episodes, slot=Slot(arguments.slot)))
    with _rollouts(arguments) as rollouts:
        training = SelectorTraining(
            trace,
            clusters,
            config,
            arguments.out,
            lambda line: print(line, file=sys.stderr),
            arguments.start,
            rollouts,
        )
        bar = ProgressBar(max(config.iterations, 1), sys.stderr)
        try:
            path = training.run(lambda done, total: bar(done))
        except KeyboardInterrupt:
            return stopped(arguments.out)
    result = {"version": 1, "model": str(path), "best": training.best(), **training.about}
    if arguments.json:
        print(json.dumps(result))
    else:
        print(f"model: {path}")
        print(f"report: {arguments.out / 'report.html'}")
    return 0


def _rollouts(arguments: argparse.Namespace) -> "AbstractContextManager[RolloutEngine]":
    """Return where episodes are played.

    Raises:
        TrainError: options that do not go together.
        SimError: Ray is not installed, or no cluster is at the address.
    """
    from roost_train.improvement.ray_rollouts import RayRollouts
    from roost_train.improvement.rollout_engine import InProcess

    count = arguments.processes
    if arguments.engine == "ray":
        if count is not None and count < 1:
            raise TrainError(f"--processes {count}: want 1 or more")
        return RayRollouts(arguments.ray_address, count or core_count())
    if arguments.ray_address is not None or count is not None:
        raise TrainError("--ray-address and --processes go with --engine ray")
    return nullcontext(InProcess())
