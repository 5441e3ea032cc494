"""`roost-train`: make a model that Roost can use, and check one.

Exit codes: 0 done; 1 the answer is no: `verify` found readings that differ, or `interference`
refused a refit; 2 wrong input, or a library is missing; 130 interrupted. Each command has --help
with an example.
"""

import argparse
import importlib
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from math import isnan
from typing import TypeAlias

import numpy as np

from roost_engine.domain.errors import JournalError, PolicyError
from roost_formats.models import onnx_telemetry
from roost_sim.errors import SimError
from roost_sim.traces.formats import Format, load_trace
from roost_sim.traces.trace import Trace
from roost_slurm.version_option import ShowVersion
from roost_train.commands.ablation_command import add_ablate
from roost_train.commands.evolution_command import add_evolve
from roost_train.commands.options import (
    DEFAULT_EPOCHS,
    DEFAULT_STEPS,
    AddOptions,
    add_distil,
    add_graph,
    add_interference,
    add_pairs,
    add_runtimes,
    add_verify,
    add_warmstart,
)
from roost_train.commands.selector_command import add_selector
from roost_train.errors import MissingLibrary, TrainError
from roost_train.progress import ProgressBar

_GRAPH_OPTIONS = ("seed", "worlds", "jobs", "steps", "price")

Run: TypeAlias = Callable[[argparse.Namespace], int]
AddCommand: TypeAlias = Callable[[str, str, str], argparse.ArgumentParser]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        onnx_telemetry.switch_off()  # before the import
        for name in ("torch", "onnx", "onnxruntime"):
            _need(name)
        code: int = arguments.command(arguments)
    except (TrainError, PolicyError, JournalError, SimError) as error:
        print(f"roost-train: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "  # a full disk has no name
        print(f"roost-train: {where}{error.strerror or error}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="roost-train", description=__doc__)
    parser.add_argument("--version", action=ShowVersion)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, meaning: str, example: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=meaning,
            description=f"{meaning[0].upper()}{meaning[1:]}.",
            epilog=f"Example: roost-train {name} {example}",
        )

    _add_trainings(command)
    _add_selectors(command)
    return parser


def _add_trainings(command: AddCommand) -> None:
    def train(name: str, meaning: str, example: str, add: AddOptions, run: Run) -> None:
        parser = command(name, meaning, example)
        add(parser)
        parser.set_defaults(command=run)

    out, journal = "--output DIR", "--journal /var/lib/roost/journal.sqlite --out DIR"
    pairs, sacct = "--commands programs.txt --out pairs.csv", "--sacct jobs.txt --out DIR"
    train("distil", "teach a score model the heuristic's scores", out, add_distil, _distil)
    check = "compare numpy, torch and ONNX Runtime on a model"
    train("verify", check, "policy.onnx", add_verify, _verify)
    teach = "teach a model what neighbours cost"
    train("interference", teach, journal, add_interference, _interference)
    train("pairs", "measure programs beside each other on a GPU", pairs, add_pairs, _pairs)
    train("graph", "teach a model what placements cost", out, add_graph, _graph)
    train("runtimes", "teach a model a site's run times", sacct, add_runtimes, _runtimes)
    train("warmstart", "teach an order model the present order", journal, add_warmstart, _warmstart)


def _add_selectors(command: AddCommand) -> None:
    data = "--trace jobs.csv --cluster venus --out DIR"
    add_selector(command("selector", "train a job selector by simulation", data))
    add_evolve(command("evolve", "search a job selector of few numbers", f"{data} --minutes 30"))
    add_ablate(
        command(
            "ablate",
            "measure what each part of a selector's training is worth",
            f"{data} --config train.yaml",
        )
    )


def _warmstart(arguments: argparse.Namespace) -> int:
    from roost_train.warmstart.run import warm_start

    trace = _load(arguments)
    words = _source_words(arguments)
    if arguments.teacher:
        words += ["--teacher", arguments.teacher, "--cluster", arguments.cluster]
    command = ["roost-train", "warmstart", *words, "--seed", str(arguments.seed), "--out", "DIR"]
    found = warm_start(
        trace,
        arguments.teacher,
        arguments.cluster,
        arguments.out,
        seed=arguments.seed,
        command=shlex.join(command),
        progress=lambda total: ProgressBar(total, sys.stderr),
    )
    print(json.dumps({"version": 1, **found}))
    return 0


def _pairs(arguments: argparse.Namespace) -> int:
    from roost_train.commands.pairs_command import PairsOptions, run
    from roost_train.pairs.pair_measuring import Window
    from roost_train.pairs.pair_process import STEP_PATTERN

    options = PairsOptions(
        commands=arguments.commands,
        out=arguments.out,
        rounds=arguments.rounds,
        window=Window(arguments.settle, arguments.seconds),
        start_s=arguments.start,
        pattern=arguments.pattern or STEP_PATTERN,
        has_twins=not arguments.no_twins,
    )
    print(run(options, lambda line: print(line, file=sys.stderr, flush=True)))
    return 0


def _interference(arguments: argparse.Namespace) -> int:
    _need("sklearn")
    from roost_train.commands.interference_command import read_sources, run, run_refit

    if arguments.journal is not None:
        if arguments.pairs or arguments.alone:
            raise TrainError("--pairs and --alone add to the tables of --data, not to a journal")
        text, code = run_refit(
            arguments.journal, arguments.model, arguments.out, as_json=arguments.json
        )
        print(text)
        return code
    pairs = read_sources(arguments.data, arguments.pairs, arguments.alone)
    tables = {"more": arguments.pairs, "alone": arguments.alone}
    print(run(pairs, arguments.out, arguments.seed, as_json=arguments.json, **tables))
    return 0


def _need(name: str) -> None:
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise MissingLibrary(name) from error


def _distil(arguments: argparse.Namespace) -> int:
    from roost_train.distillation.distil import HyperParameters, distil
    from roost_train.release.score_release import write_release

    parameters = HyperParameters(seed=arguments.seed, steps=arguments.steps)
    net = distil(parameters, ProgressBar(parameters.steps, sys.stderr))
    command = ["roost-train", "distil", "--seed", str(parameters.seed)]
    if parameters.steps != DEFAULT_STEPS:
        command += ["--steps", str(parameters.steps)]
    path, agreement = write_release(
        net, parameters, arguments.output, shlex.join([*command, "--output", "DIR"])
    )
    print(json.dumps({"model": str(path), "run": parameters.run_name, **asdict(agreement)}))
    return 0


def _graph(arguments: argparse.Namespace) -> int:
    from roost_train.graph.price import PriceTrial, best_price, try_prices
    from roost_train.graph.release import write_graph
    from roost_train.graph.training import GraphHyperParameters, collect, judge, priced, train

    for option in ("worlds", "jobs", "steps"):
        if getattr(arguments, option) < 1:
            raise TrainError(f"--{option} {getattr(arguments, option)}: want 1 or more")
    parameters = GraphHyperParameters(
        seed=arguments.seed,
        worlds=arguments.worlds,
        jobs=arguments.jobs,
        steps=arguments.steps,
    )
    samples, held_out = collect(parameters, ProgressBar(parameters.worlds, sys.stderr))
    net = train(samples, parameters, ProgressBar(parameters.steps, sys.stderr))
    figures, price, trials = judge(net, held_out), arguments.price, list[PriceTrial]()
    if price is None:
        count = parameters.price_worlds
        bar = ProgressBar(count, sys.stderr)
        trials = try_prices(net, parameters.seed, count, parameters.jobs, progress=bar)
        price = best_price(trials)
    parameters = replace(parameters, price=price)
    words = [f"--{name}={getattr(parameters, name)}" for name in _GRAPH_OPTIONS]
    command = shlex.join(["roost-train", "graph", *words, "--output", "DIR"])
    path = write_graph(priced(net, price), parameters, figures, arguments.output, command)
    body = {"model": str(path), "run": parameters.run_name, "decisions": len(samples)}
    prices = {"price": price, "prices": [asdict(trial) for trial in trials]}
    print(json.dumps({**body, **prices, **asdict(figures)}))
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from roost_train.release.verify import verify

    verdict = verify(arguments.model)
    figures = asdict(verdict)
    if isnan(verdict.worst_difference):
        figures["worst_difference"] = None  # JSON has no NaN
    print(json.dumps({"model": str(arguments.model), **figures, "same": verdict.is_same}))
    return 0 if verdict.is_same else 1


def _runtimes(arguments: argparse.Namespace) -> int:
    _need("sklearn")
    from roost_train.runtimes.run_time_jobs import replay
    from roost_train.runtimes.run_time_net import RunTimeHyperParameters
    from roost_train.runtimes.run_time_training import as_table, train_and_compare, write_run_times

    if arguments.epochs < 1:
        raise TrainError(f"--epochs {arguments.epochs}: want 1 or more")
    parameters = RunTimeHyperParameters(seed=arguments.seed, most_epochs=arguments.epochs)
    trace = _load(arguments)
    jobs = replay(trace, ProgressBar(len(trace), sys.stderr))
    bar = ProgressBar(2 * parameters.most_epochs, sys.stderr)
    net, report = train_and_compare(jobs, trace.source, parameters, bar)
    path = None
    if arguments.out is not None:
        command = shlex.join(["roost-train", "runtimes", *_repeated(arguments), "--out", "DIR"])
        path = write_run_times(net, jobs, parameters, report, arguments.out, command)
    if arguments.json:
        rows = [asdict(row) for row in report.rows]
        body = {"version": 1, "run": parameters.run_name, "best": report.best, "rows": rows}
        counts = {"train_count": report.train_count, "test_count": report.test_count}
        counts["epochs"] = report.epochs
        print(json.dumps({**body, **counts, "model": None if path is None else str(path)}))
        return 0
    print(
        f"trained on {report.train_count:,} jobs ({report.epochs} passes),"
        f" judged on {report.test_count:,} later ones"
    )
    print(as_table(report))
    print(f"better on these jobs: the {report.best}")
    if path is not None:
        print(f"model: {path}")
    return 0


def _load(arguments: argparse.Namespace) -> Trace:
    """Read the jobs; rows that are no usable jobs are counted on standard error."""
    if arguments.sacct is not None:
        loaded = load_trace(arguments.sacct, format=Format.SACCT)
    elif arguments.journal is not None:
        loaded = load_trace(arguments.journal, format=Format.JOURNAL)
    else:
        loaded = load_trace(arguments.trace)
    report = loaded.report
    if report.bad_count:
        count = f"{report.bad_count} rows are no usable jobs and are left out"
        print(f"roost-train: {count}; the first: {report.examples[0]}", file=sys.stderr)
    trace = loaded.trace
    if arguments.jobs is None:
        return trace
    if arguments.jobs < 1:
        raise TrainError(f"--jobs {arguments.jobs}: want 1 or more")
    return trace.where(np.arange(len(trace)) < arguments.jobs)


def _repeated(arguments: argparse.Namespace) -> list[str]:
    """Return the options that repeat a training; of the file the name only."""
    words = _source_words(arguments)
    if arguments.epochs != DEFAULT_EPOCHS:
        words += ["--epochs", str(arguments.epochs)]
    return [*words, "--seed", str(arguments.seed)]


def _source_words(arguments: argparse.Namespace) -> list[str]:
    words = list[str]()
    for option in ("sacct", "journal", "trace"):
        if (path := getattr(arguments, option)) is not None:
            words += [f"--{option}", path.name]
    if arguments.jobs is not None:
        words += ["--jobs", str(arguments.jobs)]
    return words
