"""The command `roost-slurm doctor`."""

import argparse
import json
import socket
import sys
from pathlib import Path

from roost_slurm.doctor.doctor import Check, Level, ThisMachine, examine, look, roles
from roost_slurm.doctor.doctor_files import versions
from roost_slurm.doctor.doctor_node import EVERYWHERE, NODE
from roost_slurm.doctor.doctor_slurm import CONTROLLER

SICK, NO_ROLE = 1, 2


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `doctor`."""
    parser.add_argument(
        "--role",
        action="append",
        choices=("controller", "node"),
        help="what this machine is; may be repeated (default: by Slurm's configuration and the"
        " probe)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    for what, default in (("runtime", "/run/roost"), ("hooks", "/etc/slurm/hooks")):
        parser.add_argument(
            f"--{what}-folder",
            type=Path,
            metavar="FOLDER",
            default=Path(default),
            help=f"as given to roost-slurm config (default {default})",
        )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Look and print; return 0 where nothing is wrong, 1 where something is, 2 without a role."""
    machine = ThisMachine(socket.gethostname().split(".")[0])
    looked, slurm = look(machine, args.runtime_folder, args.hooks_folder)
    found_roles = tuple(args.role or roles(looked))
    findings = [slurm, *examine(looked, _checks(found_roles))]
    if args.json:
        rows = [finding.as_row() for finding in findings]
        body = {"version": 1, "host": machine.host, "roles": found_roles, "findings": rows}
        print(json.dumps(body, indent=2))
    else:
        print(*findings, sep="\n")
    if not found_roles:
        problem = "is neither SlurmctldHost nor a node with a probe; cure: --role"
        print(f"roost-slurm doctor: {machine.host} {problem}", file=sys.stderr)
        return NO_ROLE
    return SICK if any(finding.level is Level.PROBLEM for finding in findings) else 0


def _checks(found_roles: tuple[str, ...]) -> tuple[Check, ...]:
    checks = [*EVERYWHERE]
    if "controller" in found_roles:
        checks += CONTROLLER
    if "node" in found_roles:
        checks += [check for check in NODE if check not in checks]
    if found_roles:
        checks.append(versions)
    return tuple(checks)
