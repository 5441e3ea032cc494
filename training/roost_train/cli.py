"""The command roost-train: make a policy, and check one."""

import argparse
import importlib
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from roost_engine.domain.errors import PolicyError
from roost_train.errors import MissingLibrary, TrainError
from roost_train.progress import ProgressBar

_DEFAULT_STEPS = 2500


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 0, 1 (readings differ) or 2 (it could not run)."""
    arguments = _parser().parse_args(argv)
    try:
        for name in ("torch", "onnx", "onnxruntime"):
            _need(name)
        code: int = arguments.command(arguments)
    except (TrainError, PolicyError, OSError) as error:
        print(f"roost-train: {error}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="roost-train", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    distil = commands.add_parser("distil", help="teach a model the heuristic's order")
    distil.add_argument("--seed", type=int, default=0, help="of everything random (default 0)")
    distil.add_argument("--steps", type=int, default=_DEFAULT_STEPS, help="training steps")
    distil.add_argument("--output", type=Path, required=True, help="folder for the two files")
    distil.set_defaults(command=_distil)
    verify = commands.add_parser("verify", help="compare numpy, torch and ONNX Runtime")
    verify.add_argument("model", type=Path, help="policy.onnx, its manifest beside it")
    verify.set_defaults(command=_verify)
    return parser


def _need(name: str) -> None:
    try:
        importlib.import_module(name)
    except ImportError as error:
        raise MissingLibrary(name) from error


def _distil(arguments: argparse.Namespace) -> int:
    from roost_train.distil import HyperParameters, distil
    from roost_train.release import write_release

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


def _verify(arguments: argparse.Namespace) -> int:
    from roost_train.verify import verify

    verdict = verify(arguments.model)
    print(json.dumps({"model": str(arguments.model), **asdict(verdict), "same": verdict.is_same}))
    return 0 if verdict.is_same else 1
