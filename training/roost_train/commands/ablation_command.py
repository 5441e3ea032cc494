"""The command roost-train ablate: what each part of the improvement is worth."""

import argparse
import json
import sys
from pathlib import Path

from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.traces.formats import load_trace
from roost_train.commands.interruption import stopped
from roost_train.errors import TrainError

_DEFAULT_SEEDS, _DEFAULT_JUDGED = 3, 24


def add_ablate(ablate: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    ablate.add_argument(
        "--trace", type=Path, metavar="FILE", required=True, help="any trace of roost-sim"
    )
    ablate.add_argument(
        "--cluster",
        action="append",
        required=True,
        metavar="NAME",
        help="a preset of roost-sim or a file; once for each cluster to train on",
    )
    ablate.add_argument(
        "--out", type=Path, metavar="DIR", required=True, help="folder for all files"
    )
    ablate.add_argument(
        "--config", type=Path, metavar="FILE", required=True, help="YAML of the full training"
    )
    ablate.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        default=_DEFAULT_SEEDS,
        help=f"trainings of each variant (default {_DEFAULT_SEEDS})",
    )
    ablate.add_argument(
        "--judged",
        type=int,
        metavar="N",
        default=_DEFAULT_JUDGED,
        help=f"episodes on which they are compared (default {_DEFAULT_JUDGED})",
    )
    ablate.add_argument("--json", action="store_true", help="the result as JSON")
    ablate.set_defaults(command=run_ablate)


def run_ablate(arguments: argparse.Namespace) -> int:
    """Run the command; see cli.main."""
    from roost_train.selector.ablation import (
        FULL,
        SUPERVISED,
        Ablation,
        as_document,
        as_table,
        effects,
    )
    from roost_train.selector.config import read_config

    for option, value in (("--seeds", arguments.seeds), ("--judged", arguments.judged)):
        if value < 1:
            raise TrainError(f"{option} {value}: want 1 or more")
    ablation = Ablation(
        load_trace(arguments.trace).trace,
        tuple(load_cluster(name) for name in arguments.cluster),
        read_config(arguments.config),
        arguments.out,
        lambda line: print(line, file=sys.stderr, flush=True),
    )
    try:
        logs = ablation.run(range(arguments.seeds), arguments.judged)
    except KeyboardInterrupt:
        return stopped(arguments.out)
    found = {reference: effects(logs, reference) for reference in (FULL, SUPERVISED)}
    if arguments.json:
        body = {reference: as_document(lines) for reference, lines in found.items()}
        print(json.dumps({"version": 1, **body}))
    else:
        print("\n\n".join(as_table(lines, reference) for reference, lines in found.items()))
    return 0
