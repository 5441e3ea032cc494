"""The `roostd` command: run the daemon, or check a configuration.

Exit codes: 0 done, 1 the daemon failed while it ran, 2 the configuration or the command line is
wrong, 3 another roostd has the state folder.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from roost_engine.domain.errors import ConfigError, RoostError
from roost_formats.yaml.tree import KeyPath
from roost_slurm.program import EXIT_NOT_READ, output_may_be_cut
from roost_slurm.version_option import ShowVersion
from roostd.config.loaded_config import DEFAULT_FILE, LoadedConfig, load_config
from roostd.config.pair_file import read_shared_pairs
from roostd.config.plain_file import NO_FILE, is_no_file
from roostd.config.speed_file import load_speeds
from roostd.config.values import NO_MODEL
from roostd.ops.grpc_environment import prepare_grpc

_OTHER_MODEL = "name another model, or none"
EXIT_OK, EXIT_FAILED, EXIT_CONFIG, EXIT_LOCKED = 0, 1, 2, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit code."""
    arguments = None
    with output_may_be_cut():
        arguments = _parser().parse_args(argv)
    if arguments is None:  # --help, whose reader has left
        return EXIT_NOT_READ
    file: Path | None = (arguments.command and arguments.file) or arguments.config
    flags = [*arguments.set, *(arguments.set_for_check if arguments.command else [])]
    if file is None and DEFAULT_FILE.exists():
        file = DEFAULT_FILE
    try:
        loaded = load_config(file, flags=flags)
        _check_slurm_conf(loaded)
        if loaded.config.gate.speeds is not None:
            load_speeds(loaded.config.gate.speeds)
        read_shared_pairs(loaded.config)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return EXIT_CONFIG
    if arguments.command == "check-config":
        return _check(loaded, file, arguments)
    return _serve(loaded, file, flags)


def _check(loaded: LoadedConfig, file: Path | None, arguments: argparse.Namespace) -> int:
    from roostd.config.expectations import unmet
    from roostd.config.reader import Reader, service_user

    user = arguments.user or (service_user() if os.geteuid() == 0 else None)
    try:
        reader = None if user is None else Reader.named(user)
    except KeyError:
        print(f"no user {user}, which roostd is to run as; cure: --user NAME", file=sys.stderr)
        return EXIT_CONFIG
    found = [*unmet(loaded, file, reader)]
    for expectation in found:
        print(("" if expectation.is_problem else "note: ") + expectation.text, file=sys.stderr)
    if any(expectation.is_problem for expectation in found):
        return EXIT_CONFIG
    if faults := [*_model_faults(loaded)]:
        print(*faults, sep="\n", file=sys.stderr)
        return EXIT_CONFIG
    if arguments.show:
        _show(loaded)
    for path, text in loaded.config.choice.unused():
        print(f"note: {_with_source(loaded, path, text)}", file=sys.stderr)
    for note in loaded.config.choice.notes():
        print(f"note: {note}", file=sys.stderr)
    if file is not None and not any(
        source.startswith(f"{file}:") for source in loaded.sources.values()
    ):
        print(f"note: {file} sets nothing: every setting has its default", file=sys.stderr)
    if file is None:
        print(f"note: no {DEFAULT_FILE}: every setting has its default", file=sys.stderr)
    return EXIT_OK


def _check_slurm_conf(loaded: LoadedConfig) -> None:
    """Check that slurm.conf can be read: Slurm's commands wait a minute for a missing one.

    Raises:
        ConfigError: slurm.conf cannot be read.
    """
    conf = loaded.config.slurm.conf
    if conf is None:
        return
    source = loaded.sources.get(("slurm", "conf"), "default")
    try:
        if is_no_file(conf):
            raise ConfigError([f"{source}: slurm.conf: {conf}: {NO_FILE}"])
        conf.open("rb").close()
    except OSError as error:
        raise ConfigError([f"{source}: slurm.conf: {conf}: {error.strerror}"]) from error


def _model_faults(loaded: LoadedConfig) -> Iterator[str]:
    """Yield why a model that the configuration names cannot be loaded.

    The daemon itself starts without it: the history of run times, or the heuristic, answers.
    """
    # Imported here: the check of a file without a model needs no onnxruntime, and is quicker.
    model, key = loaded.config.order.run_time_model, ("order", "run_time_model")
    if model != NO_MODEL:
        from roost_formats.models.run_times import load_run_time_model

        if (fault := load_run_time_model(model)[1]) is not None:
            yield _with_source(loaded, key, f"{fault}; {_OTHER_MODEL}")
    score, key = loaded.config.policy.model, ("policy", "model")
    if score is not None and Path(score).is_absolute():
        from roost_formats.models.score import load_score_policy

        if (fault := load_score_policy(score)[1]) is not None:
            yield _with_source(loaded, key, f"{fault}; {_OTHER_MODEL}")


def _with_source(loaded: LoadedConfig, key: KeyPath, text: str) -> str:
    return f"{loaded.sources.get(key, 'default')}: {'.'.join(key)}: {text}"


def _serve(loaded: LoadedConfig, file: Path | None, flags: Sequence[str]) -> int:
    # Imported here: `check-config` needs neither grpc nor onnxruntime, and starts ten times faster.
    # gRPC reads its log level when it is imported; its messages repeat Roost's errors less clearly.
    prepare_grpc()
    from roostd.app.daemon import serve
    from roostd.ops.folders import StateFolderInUse

    try:
        serve(loaded.config, lambda: load_config(file, flags=flags).config)
    except StateFolderInUse as error:
        print(f"roostd: {error}", file=sys.stderr)
        return EXIT_LOCKED
    except ConfigError as error:
        print(f"roostd: {error}", file=sys.stderr)
        return EXIT_CONFIG
    except RoostError as error:
        print(f"roostd: {error}", file=sys.stderr)
        return EXIT_FAILED
    return EXIT_OK


def _show(loaded: LoadedConfig) -> None:
    with output_may_be_cut():
        for key, value, source in loaded.rows():
            print(f"{key}: {value}  # {source}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="roostd",
        description="Job placement daemon for GPU clusters that run Slurm.",
        epilog="Exit codes: 0 stopped as asked, 1 failed while it ran, 2 the configuration or the"
        " command line is wrong, 3 another roostd uses the same state folder. Example:"
        " roostd --config /etc/roost/roostd.yaml --set log.format=json",
    )
    parser.add_argument("--version", action=ShowVersion)
    _add_set(parser)
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"configuration (default: {DEFAULT_FILE} if it exists)",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    check = commands.add_parser(
        "check-config",
        help="check a configuration; exit 2 and name every problem if it is wrong",
        description="Check a configuration without starting roostd: name every problem, with file"
        " and line, and exit with 2; or exit with 0.",
        epilog="Example: roostd check-config --show /etc/roost/roostd.yaml",
    )
    check.add_argument(
        "file",
        type=Path,
        nargs="?",
        metavar="FILE",
        help=f"configuration (default: --config, then {DEFAULT_FILE} if it exists)",
    )
    check.add_argument(
        "--show", action="store_true", help="print every value and where it comes from"
    )
    check.add_argument(
        "--user",
        metavar="NAME",
        help="the user who must be able to read the files (default: for root the user of"
        " roostd.service)",
    )
    _add_set(check, "set_for_check")
    return parser


def _add_set(parser: argparse.ArgumentParser, name: str = "set") -> None:
    parser.add_argument(
        "--set",
        dest=name,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override one setting, for instance slurm.lease_s=30; may be repeated",
    )


if __name__ == "__main__":
    sys.exit(main())
