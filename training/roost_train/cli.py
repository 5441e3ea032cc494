"""The command roost-train: make a model, and check one."""

import argparse
import importlib
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from roost_engine.domain.errors import JournalError, PolicyError
from roost_formats.models import onnx_telemetry
from roost_formats.models.interference import SHIPPED_INTERFERENCE
from roost_sim.errors import SimError
from roost_sim.traces.formats import Format, load_trace
from roost_sim.traces.trace import Trace
from roost_slurm.version_option import ShowVersion
from roost_train.commands.ablation_command import add_ablate
from roost_train.commands.evolution_command import add_evolve
from roost_train.commands.selector_command import add_selector
from roost_train.errors import MissingLibrary, TrainError
from roost_train.progress import ProgressBar

_DEFAULT_STEPS = 2500
_DEFAULT_EPOCHS = 30
_GRAPH_OPTIONS = ("seed", "worlds", "jobs", "steps", "price")
_DEFAULT_WORLDS, _DEFAULT_JOBS, _DEFAULT_GRAPH_STEPS = 60, 500, 4000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 0, 1 (readings differ, refit refused) or 2 (no run)."""
    arguments = _parser().parse_args(argv)
    try:
        onnx_telemetry.switch_off()  # before the import
        for name in ("torch", "onnx", "onnxruntime"):
            _need(name)
        code: int = arguments.command(arguments)
    except (TrainError, PolicyError, JournalError, SimError, OSError) as error:
        print(f"roost-train: {error}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="roost-train", description=__doc__)
    parser.add_argument("--version", action=ShowVersion)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    distil = commands.add_parser("distil", help="teach a model the heuristic's order")
    distil.add_argument("--seed", type=int, default=0, help="of everything random (default 0)")
    distil.add_argument("--steps", type=int, default=_DEFAULT_STEPS, help="training steps")
    distil.add_argument("--output", type=Path, required=True, help="folder for the two files")
    distil.set_defaults(command=_distil)
    verify = commands.add_parser("verify", help="compare numpy, torch and ONNX Runtime")
    verify.add_argument("model", type=Path, help="policy.onnx, its manifest beside it")
    verify.set_defaults(command=_verify)
    _add_interference(commands.add_parser("interference", help="teach a model what pairs cost"))
    _add_pairs(commands.add_parser("pairs", help="measure programs beside each other on a GPU"))
    _add_graph(commands.add_parser("graph", help="teach a model what placements cost"))
    _add_runtimes(commands.add_parser("runtimes", help="teach a model a site's run times"))
    add_selector(commands.add_parser("selector", help="train a job selector by simulation"))
    add_evolve(commands.add_parser("evolve", help="search a job selector of few numbers"))
    add_ablate(commands.add_parser("ablate", help="what each part of the improvement is worth"))
    _add_warmstart(commands.add_parser("warmstart", help="teach an order model the incumbent's"))
    return parser


def _add_graph(graph: argparse.ArgumentParser) -> None:
    graph.add_argument("--seed", type=int, default=0, help="of everything random (default 0)")
    graph.add_argument(
        "--worlds", type=int, default=_DEFAULT_WORLDS, help="clusters that are simulated"
    )
    graph.add_argument("--jobs", type=int, default=_DEFAULT_JOBS, help="jobs on each of them")
    graph.add_argument("--steps", type=int, default=_DEFAULT_GRAPH_STEPS, help="training steps")
    graph.add_argument(
        "--price",
        type=float,
        help="of a point of the heuristic; without it the best of some is searched",
    )
    graph.add_argument("--output", type=Path, required=True, help="folder for the two files")
    graph.set_defaults(command=_graph)


def _add_warmstart(warmstart: argparse.ArgumentParser) -> None:
    source = warmstart.add_mutually_exclusive_group(required=True)
    source.add_argument("--sacct", type=Path, metavar="FILE", help="text of sacct -P: real starts")
    source.add_argument("--journal", type=Path, metavar="FILE", help="roostd's journal: the same")
    source.add_argument("--trace", type=Path, metavar="FILE", help="any trace of roost-sim")
    warmstart.add_argument(
        "--teacher",
        metavar="POLICY",
        help="imitate this policy of roost-sim, simulated on the jobs; without it, the real starts",
    )
    warmstart.add_argument(
        "--cluster", default="small", metavar="NAME", help="of the simulations (default small)"
    )
    warmstart.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the files")
    warmstart.add_argument("--jobs", type=int, metavar="N", help="the first N jobs only")
    warmstart.add_argument("--seed", type=int, default=0, help="of everything random (default 0)")
    warmstart.set_defaults(command=_warmstart)


def _warmstart(arguments: argparse.Namespace) -> int:
    from roost_train.warmstart.warmstart_run import warm_start

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


def _add_runtimes(runtimes: argparse.ArgumentParser) -> None:
    source = runtimes.add_mutually_exclusive_group(required=True)
    source.add_argument("--sacct", type=Path, metavar="FILE", help="text of sacct -P")
    source.add_argument("--journal", type=Path, metavar="FILE", help="roostd's journal")
    source.add_argument("--trace", type=Path, metavar="FILE", help="any trace of roost-sim")
    runtimes.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the model's two files"
    )
    runtimes.add_argument("--jobs", type=int, metavar="N", help="the first N jobs only")
    runtimes.add_argument(
        "--epochs", type=int, default=_DEFAULT_EPOCHS, help="passes over the jobs"
    )
    runtimes.add_argument("--seed", type=int, default=0, help="of everything random (default 0)")
    runtimes.add_argument("--json", action="store_true", help="figures as JSON")
    runtimes.set_defaults(command=_runtimes)


def _add_interference(interference: argparse.ArgumentParser) -> None:
    source = interference.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path, metavar="DIR", help="folder of the public tables")
    source.add_argument(
        "--journal", type=Path, metavar="FILE", help="refit to the speeds that a site's jobs report"
    )
    interference.add_argument(
        "--model",
        type=Path,
        metavar="FILE",
        default=SHIPPED_INTERFERENCE,
        help="with --journal: the model in service (default: the one that ships with Roost)",
    )
    interference.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the model's two files"
    )
    interference.add_argument("--seed", type=int, default=0, help="of the random split (default 0)")
    interference.add_argument("--json", action="store_true", help="figures as JSON")
    interference.set_defaults(command=_interference)


def _add_pairs(pairs: argparse.ArgumentParser) -> None:
    pairs.add_argument(
        "--commands", type=Path, metavar="FILE", required=True, help="lines `name: command`"
    )
    pairs.add_argument(
        "--out", type=Path, metavar="FILE", required=True, help="the table, for sharing.pairs"
    )
    pairs.add_argument("--rounds", type=int, default=3, help="of all pairs (default 3)")
    pairs.add_argument(
        "--seconds", type=float, default=20.0, help="that a pair is measured (default 20)"
    )
    pairs.add_argument(
        "--settle", type=float, metavar="SECONDS", default=5.0, help="before them (default 5)"
    )
    pairs.add_argument(
        "--start", type=float, metavar="SECONDS", default=600.0, help="for a program to be warm"
    )
    pairs.add_argument(
        "--no-twins", action="store_true", help="no program beside itself; each is started once"
    )
    pairs.add_argument(
        "--pattern",
        metavar="REGEX",
        help="in the programs' output; its first group is the number of steps; default: the word"
        " step with a number behind it",
    )
    pairs.set_defaults(command=_pairs)


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
        text, code = run_refit(
            arguments.journal, arguments.model, arguments.out, as_json=arguments.json
        )
        print(text)
        return code
    pairs = read_sources(arguments.data)
    print(run(pairs, arguments.out, arguments.seed, as_json=arguments.json))
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
    if parameters.steps != _DEFAULT_STEPS:
        command += ["--steps", str(parameters.steps)]
    path, agreement = write_release(
        net, parameters, arguments.output, shlex.join([*command, "--output", "DIR"])
    )
    print(json.dumps({"model": str(path), "run": parameters.run_name, **asdict(agreement)}))
    return 0


def _graph(arguments: argparse.Namespace) -> int:
    from roost_train.graph.graph_price import PriceTrial, best_price, try_prices
    from roost_train.graph.graph_release import write_graph
    from roost_train.graph.graph_training import GraphHyperParameters, collect, judge, priced, train

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
    print(json.dumps({"model": str(arguments.model), **asdict(verdict), "same": verdict.is_same}))
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
    if arguments.epochs != _DEFAULT_EPOCHS:
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
