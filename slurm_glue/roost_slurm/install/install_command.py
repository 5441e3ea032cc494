"""The commands `roost-slurm install` and `roost-slurm uninstall`."""

import argparse
import sys
from pathlib import Path

from roost_slurm.install.install import (
    UNITS,
    InstallError,
    Plan,
    Site,
    plan_slurm,
    plan_units,
    uninstall,
    write,
)
from roost_slurm.install.install_lua import LuaMergeError

BAD_INPUT = 2


def add_install(parser: argparse.ArgumentParser) -> None:
    """Add the options of `install`."""
    parser.add_argument(
        "--role",
        action="append",
        choices=sorted(UNITS),
        help="install the units of this role; may be repeated; needed without --files",
    )
    parser.add_argument(
        "--files",
        type=Path,
        metavar="FOLDER",
        help="what `roost-slurm config --out FOLDER` made: hooks, roost.conf, job_submit.lua"
        " (default: none of these)",
    )
    _add_places(parser)
    parser.add_argument(
        "--plan", action="store_true", help="say what would be written; write nothing"
    )
    parser.add_argument("--force", action="store_true", help="replace files that differ")
    parser.set_defaults(run=run_install)


def add_uninstall(parser: argparse.ArgumentParser) -> None:
    """Add the options of `uninstall`."""
    _add_places(parser)
    parser.set_defaults(run=run_uninstall)


def _add_places(parser: argparse.ArgumentParser) -> None:
    for option, default, meaning in (
        ("--prefix", sys.prefix, "Roost's Python environment"),
        ("--slurm-folder", "/etc/slurm", "the folder of slurm.conf"),
        ("--hooks-folder", "/etc/slurm/hooks", "where the hooks are"),
    ):
        parser.add_argument(
            option,
            type=Path,
            metavar="FOLDER",
            default=Path(default),
            help=f"{meaning} (default %(default)s)",
        )
    parser.add_argument("--root", type=Path, default=Path("/"), help=argparse.SUPPRESS)


def run_install(args: argparse.Namespace) -> int:
    """Install; return the exit code."""
    site = _site(args)
    if not args.role and args.files is None:
        return _fail(
            "install", "nothing to install; name --role controller, --role node or --files"
        )
    try:
        plans = [plan_units(site, args.role)] if args.role else []
        if args.files is not None:
            plans.append(plan_slurm(site, args.files))
        for plan in plans:
            changed = set(plan.files) if args.plan else set(write(site, plan, force=args.force))
            _tell(plan, changed, "would write" if args.plan else "wrote")
    except (InstallError, LuaMergeError) as error:
        return _fail("install", str(error))
    if args.role and not args.plan:
        print("to do: systemctl daemon-reload")
    return 0


def run_uninstall(args: argparse.Namespace) -> int:
    """Remove what was installed; return the exit code."""
    try:
        _tell(removed := uninstall(_site(args)), set(removed.files), "removed")
    except InstallError as error:
        return _fail("uninstall", str(error))
    return 0


def _site(args: argparse.Namespace) -> Site:
    return Site(
        prefix=args.prefix.absolute(),
        root=args.root,
        slurm_folder=args.slurm_folder,
        hooks_folder=args.hooks_folder,
    )


def _tell(plan: Plan, changed: set[Path], verb: str) -> None:
    for path in plan.files:
        print(f"{verb if path in changed else 'unchanged'} {path}")
    for path in plan.merged:
        print(f"the site's own lines stay in {path}")
    for line in plan.kept:
        print(f"kept {line}")
    for line in plan.to_do:
        print(f"to do: {line}")


def _fail(command: str, problem: str) -> int:
    print(f"roost-slurm {command}: {problem}", file=sys.stderr)
    return BAD_INPUT
