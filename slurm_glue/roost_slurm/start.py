"""Starts the program `roost-slurm`. Jobs wait for hooks, so these do without the other commands."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

DEFAULT_RUNTIME_FOLDER = Path("/run/roost")
_USAGE = "want NAME [--runtime-folder FOLDER] [--mps]"


def main() -> int:
    """Entry point of the console script."""
    if is_hook_call(sys.argv[1:]):
        return run_hook(sys.argv[2:])
    from roost_slurm.program import run_program

    return run_program(_load)


def is_hook_call(arguments: Sequence[str]) -> bool:
    """Return whether Slurm calls a hook; `hook --help` is a person's."""
    return arguments[:1] == ["hook"] and arguments[1:] not in (["-h"], ["--help"])


def _load() -> Callable[[], int]:
    from roost_slurm.cli import main as run  # here: argparse and the like take 20 ms

    return run


def run_hook(arguments: Sequence[str]) -> int:
    """Run one hook; wrong arguments must not fail it, because that drains the node."""
    from roost_slurm.hooks import hooks

    name, *options = arguments or [""]
    folder, mps = DEFAULT_RUNTIME_FOLDER, False
    while options:
        match options:
            case ["--mps", *options]:
                mps = True
            case ["--runtime-folder", path, *options]:
                folder = Path(path)
            case _:
                return _refuse(options[0])
    if name not in list(hooks.HookName):
        return _refuse(name)
    if not folder.name:  # "/" or "": the hook's other folders stand beside it
        return _refuse(str(folder))
    around = hooks.Surroundings.of_runtime(folder, os.environ.get("SLURM_CONF"), mps=mps)
    hooks.run(hooks.HookName(name), os.environ, around)
    return 0


def _refuse(word: str) -> int:
    print(f"roost-slurm hook: {word!r}: {_USAGE}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
