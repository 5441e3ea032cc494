"""The command roost-train evolve: search a job selector of few numbers by whole simulations."""

import argparse
import json
import sys
import time
from pathlib import Path

from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.sweeps.process_engine import core_count
from roost_sim.traces.formats import load_trace
from roost_train.commands.interruption import stopped
from roost_train.commands.options import seed
from roost_train.errors import TrainError

_DEFAULT_GENERATIONS = 60


def add_evolve(evolve: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    for option, metavar, of_what in (
        ("--trace", "FILE", "any trace of roost-sim"),
        ("--cluster", "NAME", "a preset of roost-sim or a file"),
    ):
        evolve.add_argument(
            option,
            action="append",
            required=True,
            metavar=metavar,
            help=f"{of_what}; once for each to train on",
        )
    evolve.add_argument(
        "--out", type=Path, metavar="DIR", required=True, help="folder for all files"
    )
    evolve.add_argument(
        "--generations",
        type=int,
        metavar="N",
        default=_DEFAULT_GENERATIONS,
        help=f"generations of the search (default {_DEFAULT_GENERATIONS})",
    )
    evolve.add_argument(
        "--minutes",
        type=float,
        metavar="M",
        help="begin no generation after so long (default: no limit)",
    )
    evolve.add_argument(
        "--processes", type=int, metavar="N", help="cores to simulate on (default: all)"
    )
    evolve.add_argument("--seed", type=seed, default=0, help="seeds every random draw (default 0)")
    evolve.set_defaults(command=run_evolve)


def run_evolve(arguments: argparse.Namespace) -> int:
    """Run the command; see cli.main."""
    from roost_train.selector.evolution_training import (
        EvolutionParameters,
        EvolutionTraining,
        part_episodes,
    )
    from roost_train.selector.runs import selector_runs
    from roost_train.selector.training_folder import data_digest

    began_s = time.monotonic()
    process_count = core_count() if arguments.processes is None else arguments.processes
    for option, value in (("--processes", process_count), ("--generations", arguments.generations)):
        if value < 1:
            raise TrainError(f"{option} {value}: want 1 or more")
    parameters = EvolutionParameters(seed=arguments.seed)
    traces = [load_trace(Path(name)).trace for name in arguments.trace]
    clusters = [load_cluster(name) for name in arguments.cluster]
    about = {
        "traces": [{"source": Path(one.source).name, "job_count": len(one)} for one in traces],
        "clusters": [one.name for one in clusters],
        "data_sha256": data_digest(tuple(traces), tuple(clusters)),
    }
    known = {
        "trained": part_episodes(traces, clusters, parameters, is_trained=True),
        "validated": part_episodes(traces, clusters, parameters, is_trained=False),
    }

    def goes_on() -> bool:
        limit = arguments.minutes
        return limit is None or time.monotonic() - began_s < 60.0 * limit

    try:
        with selector_runs(known, process_count) as runs:
            training = EvolutionTraining(
                runs["trained"],
                runs["validated"],
                parameters,
                arguments.out,
                about,
                lambda line: print(line, file=sys.stderr, flush=True),
            )
            path = training.run(arguments.generations, goes_on)
    except KeyboardInterrupt:
        return stopped(arguments.out)
    print(json.dumps({"version": 1, "model": str(path), **training.best_figures()}))
    return 0
