"""The options of the commands of roost-train that make or check one model."""

import argparse
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import TypeAlias

from roost_formats.models.interference import SHIPPED_INTERFERENCE

DEFAULT_STEPS = 2500
DEFAULT_EPOCHS = 30
_DEFAULT_WORLDS, _DEFAULT_JOBS, _DEFAULT_GRAPH_STEPS = 60, 500, 4000
AddOptions: TypeAlias = Callable[[argparse.ArgumentParser], None]

_SEED_HELP = "seeds every random draw (default 0)"
_FILES_HELP = "folder for the model's two files"


def seed(text: str) -> int:
    """Return a seed from the command line: scikit-learn takes 32 bits, the others more."""
    if not (text.isdecimal() and len(text) <= 10 and int(text) < 1 << 32):
        raise argparse.ArgumentTypeError(f"{text}: want 0 to {(1 << 32) - 1}")
    return int(text)


def steps(text: str) -> int:
    """Return a number of steps from the command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: want 1 or more")
    return int(text)


def seconds(text: str) -> float:
    """Return a time from the command line."""
    if not 0 < float(text) < inf:
        raise argparse.ArgumentTypeError(f"{text}: want above 0")
    return float(text)


def pause(text: str) -> float:
    """Return a time from the command line that may be 0."""
    if not 0 <= float(text) < inf:
        raise argparse.ArgumentTypeError(f"{text}: want 0 or more")
    return float(text)


def add_verify(verify: argparse.ArgumentParser) -> None:
    """Add the options of `verify`."""
    verify.add_argument(
        "model", type=Path, metavar="FILE", help="policy.onnx, its manifest beside it"
    )


def add_distil(distil: argparse.ArgumentParser) -> None:
    """Add the options of `distil`."""
    distil.add_argument("--seed", type=seed, default=0, help=_SEED_HELP)
    distil.add_argument(
        "--steps", type=steps, default=DEFAULT_STEPS, help="training steps (default %(default)s)"
    )
    distil.add_argument("--output", type=Path, metavar="DIR", required=True, help=_FILES_HELP)


def add_interference(interference: argparse.ArgumentParser) -> None:
    """Add the options of `interference`."""
    source = interference.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder of the public tables that docs/interference.md names",
    )
    source.add_argument(
        "--journal",
        type=Path,
        metavar="FILE",
        help="roostd's journal: refit to the speeds that a site's jobs report",
    )
    for name, what in (
        ("--pairs", "with --data: one more table of measured pairs, of any GPU type; repeatable"),
        ("--alone", "with --pairs: a table that says more of its jobs alone; repeatable"),
    ):
        interference.add_argument(
            name, type=Path, metavar="FILE", action="append", default=[], help=what
        )
    interference.add_argument(
        "--model",
        type=Path,
        metavar="FILE",
        default=SHIPPED_INTERFERENCE,
        help="with --journal: the model in service (default: the one that ships with Roost)",
    )
    interference.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help=f"{_FILES_HELP} (default: judge only, write nothing)",
    )
    interference.add_argument(
        "--seed", type=seed, default=0, help="seeds the split into training and test (default 0)"
    )
    interference.add_argument("--json", action="store_true", help="figures as JSON")


def add_pairs(pairs: argparse.ArgumentParser) -> None:
    """Add the options of `pairs`."""
    pairs.add_argument(
        "--commands", type=Path, metavar="FILE", required=True, help="one `name: command` a line"
    )
    pairs.add_argument(
        "--out", type=Path, metavar="FILE", required=True, help="table to write, for sharing.pairs"
    )
    pairs.add_argument(
        "--rounds", type=int, default=3, help="how often each pair is measured (default 3)"
    )
    pairs.add_argument(
        "--seconds", type=seconds, default=20.0, help="how long a pair is measured (default 20)"
    )
    pairs.add_argument(
        "--settle",
        type=pause,
        metavar="SECONDS",
        default=5.0,
        help="how long a pair runs before it is measured (default 5)",
    )
    pairs.add_argument(
        "--start",
        type=seconds,
        metavar="SECONDS",
        default=600.0,
        help="how long a program may take to its first step (default 600)",
    )
    pairs.add_argument(
        "--no-twins", action="store_true", help="no program beside itself; each is started once"
    )
    pairs.add_argument(
        "--pattern",
        metavar="REGEX",
        help="finds the number of steps, its first group, in a program's output (default: the word"
        " step with a number behind it)",
    )


def add_graph(graph: argparse.ArgumentParser) -> None:
    """Add the options of `graph`."""
    graph.add_argument("--seed", type=seed, default=0, help=_SEED_HELP)
    graph.add_argument(
        "--worlds",
        type=int,
        default=_DEFAULT_WORLDS,
        help="how many clusters are simulated (default %(default)s)",
    )
    graph.add_argument(
        "--jobs", type=int, default=_DEFAULT_JOBS, help="jobs on each cluster (default %(default)s)"
    )
    graph.add_argument(
        "--steps",
        type=int,
        default=_DEFAULT_GRAPH_STEPS,
        help="training steps (default %(default)s)",
    )
    graph.add_argument(
        "--price",
        type=float,
        help="what a point of the heuristic's score is worth (default: the best of some)",
    )
    graph.add_argument("--output", type=Path, metavar="DIR", required=True, help=_FILES_HELP)


def add_runtimes(runtimes: argparse.ArgumentParser) -> None:
    """Add the options of `runtimes`."""
    source = runtimes.add_mutually_exclusive_group(required=True)
    source.add_argument("--sacct", type=Path, metavar="FILE", help="text of sacct -P")
    source.add_argument("--journal", type=Path, metavar="FILE", help="roostd's journal")
    source.add_argument("--trace", type=Path, metavar="FILE", help="any trace of roost-sim")
    runtimes.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help=f"{_FILES_HELP} (default: judge only, write nothing)",
    )
    runtimes.add_argument(
        "--jobs", type=int, metavar="N", help="the first N jobs only (default: all)"
    )
    runtimes.add_argument(
        "--epochs",
        type=int,
        default=DEFAULT_EPOCHS,
        help="passes over the jobs at most (default %(default)s)",
    )
    runtimes.add_argument("--seed", type=seed, default=0, help=_SEED_HELP)
    runtimes.add_argument("--json", action="store_true", help="figures as JSON")


def add_warmstart(warmstart: argparse.ArgumentParser) -> None:
    """Add the options of `warmstart`."""
    source = warmstart.add_mutually_exclusive_group(required=True)
    source.add_argument("--sacct", type=Path, metavar="FILE", help="text of sacct -P: real starts")
    source.add_argument(
        "--journal", type=Path, metavar="FILE", help="roostd's journal: real starts too"
    )
    source.add_argument("--trace", type=Path, metavar="FILE", help="any trace of roost-sim")
    warmstart.add_argument(
        "--teacher",
        metavar="POLICY",
        help="imitate this policy of roost-sim, simulated on the jobs (default: the real starts)",
    )
    warmstart.add_argument(
        "--cluster",
        default="small",
        metavar="NAME",
        help="the cluster of --teacher's simulations: a preset of roost-sim or a file"
        " (default %(default)s)",
    )
    warmstart.add_argument("--out", type=Path, required=True, metavar="DIR", help=_FILES_HELP)
    warmstart.add_argument(
        "--jobs", type=int, metavar="N", help="the first N jobs only (default: all)"
    )
    warmstart.add_argument("--seed", type=seed, default=0, help=_SEED_HELP)
