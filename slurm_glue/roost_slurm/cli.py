"""`roost-slurm`: makes Slurm's files, and is what Slurm's hooks call.

Exit codes: 0 done; 1 `config --check` found differences, `check` a setting missing that Roost
needs (with --strict also one that it recommends), or `certs --check` an old certificate; 2 wrong
input, nothing was written, or Slurm does not answer. `hook` always exits 0.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from roost_slurm import start
from roost_slurm.start import DEFAULT_RUNTIME_FOLDER
from roost_slurm.version_option import ShowVersion

DIFFERENT = MISSING = 1
BAD_INPUT = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["hook"]:
        return start.run_hook(arguments[1:])
    args = _parser().parse_args(arguments)
    if run := getattr(args, "run", None):
        return int(run(args))
    if args.command == "unpin":
        return _unpin(args)
    if args.command == "certs":
        return _certs(args)
    return _check(args) if args.command == "check" else _config(args)


def _parser() -> argparse.ArgumentParser:
    from roost_slurm.doctor import doctor_command
    from roost_slurm.install import install_command
    from roost_slurm.migrate import migrate_command

    parser = argparse.ArgumentParser(prog="roost-slurm", description=__doc__)
    parser.add_argument("--version", action=ShowVersion)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    commands.add_parser("hook", help="what Slurm's prologs and epilogs call; see docs/slurm.md")
    unpin = commands.add_parser(
        "unpin", help="while roostd is dead: let Slurm start waiting jobs that are pinned, anywhere"
    )
    unpin.add_argument("--runtime-folder", type=Path, default=DEFAULT_RUNTIME_FOLDER)
    unpin.add_argument(
        "--others",
        action="store_true",
        help="after a move: take back the pins that a roostd of another host or folder has left",
    )
    check = commands.add_parser("check", help="look whether slurm.conf has what Roost needs")
    check.add_argument("--models", action="store_true", help="users name GPU models in requests")
    check.add_argument("--strict", action="store_true", help="recommended settings count as needed")
    check.add_argument(
        "--from",
        type=Path,
        dest="file",
        metavar="FILE",
        help="output of `scontrol show config`; default: run it",
    )
    _add_certs(commands.add_parser("certs", help="make certificates for roostd and the probes"))
    install_command.add_install(
        commands.add_parser("install", help="put units, hooks and scripts in place")
    )
    install_command.add_uninstall(
        commands.add_parser("uninstall", help="remove what install has written")
    )
    doctor_command.add(
        commands.add_parser("doctor", help="what is wrong on this machine, and the cure")
    )
    migrate_command.add(
        commands.add_parser("migrate", help="GPU types by index, node by node, while jobs run")
    )
    _add_config(commands.add_parser("config", help="make gres.conf and the rest from the topology"))
    return parser


def _add_config(config: argparse.ArgumentParser) -> None:
    config.add_argument(
        "topology",
        nargs="+",
        type=Path,
        help="NODE.json of `roost-probe --print-topology --json`, or one file for all nodes",
    )
    config.add_argument("--out", type=Path, required=True, help="folder to write to")
    config.add_argument("--check", action="store_true", help="write nothing, show what differs")
    config.add_argument("--force", action="store_true", help="replace files that differ")
    config.add_argument("--seats", action="store_true", help="a second, shared seat on each GPU")
    config.add_argument(
        "--mps", action="store_true", help="CUDA MPS for jobs that opt in to share; with --seats"
    )
    config.add_argument(
        "--count-models",
        action="store_true",
        help="count each GPU model as a gres of its own, for limits and billing on gres/MODEL",
    )
    config.add_argument("--runtime-folder", type=Path, default=DEFAULT_RUNTIME_FOLDER)
    config.add_argument("--hooks-folder", type=Path, default=Path("/etc/slurm/hooks"))
    config.add_argument("--device-prefix", default="/dev/nvidia")
    config.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="LONG=SHORT",
        help="short name of a model, such as 'NVIDIA A100-SXM4-80GB=a100-80'",
    )


def _add_certs(certs: argparse.ArgumentParser) -> None:
    from roost_slurm.site.certs import DAYS, RENEW_BEFORE_DAYS

    certs.add_argument("folder", type=Path, help="of the authority; keep it off the cluster")
    certs.add_argument(
        "--daemon",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name or address by which probes reach roostd; give each one",
    )
    certs.add_argument("--nodes", default="", metavar="LIST", help="such as gpu[01-16]")
    certs.add_argument("--domain", default="", help="is named too, behind each node's name")
    certs.add_argument("--days", type=int, default=DAYS, help="validity (default %(default)s)")
    certs.add_argument(
        "--renew-before",
        type=int,
        default=RENEW_BEFORE_DAYS,
        metavar="DAYS",
        help="certificates that expire earlier are made again (default %(default)s)",
    )
    certs.add_argument("--revoke", metavar="NODE", help="add its certificate to revoked.txt")
    certs.add_argument("--check", action="store_true", help="list what expires; change nothing")


def _certs(args: argparse.Namespace) -> int:
    from roost_slurm.site import certs
    from roost_slurm.text import hostlist

    authority = certs.Authority(args.folder)
    try:
        if args.check:
            held = authority.held()
            for one in held:
                print(f"{one.name}: {one.days_left:.0f} days left")
            return DIFFERENT if any(one.days_left < args.renew_before for one in held) else 0
        if args.revoke:
            print(f"{authority.revoke(args.revoke)} {args.revoke}")
            return 0
        nodes = hostlist.expand(args.nodes) if args.nodes else []
        for name in authority.make(_wanted(args, nodes), args.days, args.renew_before):
            print(args.folder / f"{name}.pem")
    except (certs.CertificateError, hostlist.HostlistError, OSError) as error:
        print(f"roost-slurm certs: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0


def _wanted(args: argparse.Namespace, nodes: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return every certificate that is asked for, with the names in it."""
    from roost_slurm.site import certs

    reserved = {certs.CA, certs.DAEMON} & set(nodes)
    if reserved:
        raise certs.CertificateError(f"{', '.join(sorted(reserved))}: no name for a node here")
    wanted = [(certs.DAEMON, args.daemon)] if args.daemon else []
    domain = args.domain.strip(".")
    wanted += [(node, [node, f"{node}.{domain}"] if domain else [node]) for node in nodes]
    if not wanted:
        raise certs.CertificateError("nothing to make: give --daemon NAME or --nodes LIST")
    return wanted


def _config(args: argparse.Namespace) -> int:
    from roost_slurm.site import config, inventory
    from roost_slurm.site.submit_script import SubmitScriptError

    left_out: list[str] = []
    try:
        nodes = inventory.load(args.topology, left_out)
        for line in left_out:
            print(f"roost-slurm config: left out: {line}", file=sys.stderr)
        if left_out and not nodes:
            print("roost-slurm config: no node is left", file=sys.stderr)
            return BAD_INPUT
        settings = config.SiteSettings(
            runtime_folder=args.runtime_folder,
            hooks_folder=args.hooks_folder,
            device_prefix=args.device_prefix,
            seats=args.seats,
            mps=args.mps,
            counts_models=args.count_models,
            model_names=_model_names(args.model),
        )
        files = config.generate(nodes, settings)
        if args.check:
            different = config.differences(files, args.out)
            print(different, end="")
            return DIFFERENT if different else 0
        for name in config.write(files, args.out, force=args.force):
            print(args.out / name)
    except inventory.InventoryError as error:
        for problem in error.problems:
            print(f"roost-slurm config: {problem}", file=sys.stderr)
        return BAD_INPUT
    except (config.ConfigError, SubmitScriptError) as error:
        print(f"roost-slurm config: {error}", file=sys.stderr)
        return BAD_INPUT
    for name in config.mixed_nodes(nodes):
        print(
            f"roost-slurm config: node {name} has several GPU models: no feature for it",
            file=sys.stderr,
        )
    return 0


def _check(args: argparse.Namespace) -> int:
    from roost_slurm.site import site_check

    try:
        text = args.file.read_text(encoding="utf-8") if args.file else _shown_config()
        findings = site_check.check(text, uses_models=args.models)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"roost-slurm check: {error}", file=sys.stderr)
        return BAD_INPUT
    for finding in findings:
        print(finding)
    counts = [args.strict or f.level is site_check.Level.NEEDED for f in findings]
    return MISSING if any(counts) else 0


def _unpin(args: argparse.Namespace) -> int:
    import syslog

    from roost_slurm.guards import orphaned_pins, seat_guards
    from roost_slurm.text.versions import UnknownVersion

    job_ids: list[str] = []
    try:
        if not args.others:
            for what in seat_guards.guard_seats(args.runtime_folder):
                syslog.syslog(syslog.LOG_WARNING, f"roost-slurm unpin: roostd is away, {what}")
        for job_id in orphaned_pins.unpin_orphans(args.runtime_folder, is_of_others=args.others):
            job_ids.append(job_id)
            print(job_id)
    except (OSError, subprocess.SubprocessError, UnknownVersion) as error:
        why = str(getattr(error, "stderr", None) or error).strip()
        print(f"roost-slurm unpin: {why}", file=sys.stderr)
        syslog.syslog(syslog.LOG_WARNING, f"roost-slurm unpin: {why}")
        return BAD_INPUT
    finally:
        if job_ids:
            why = "another roostd has left them" if args.others else "roostd is dead"
            line = f"roost-slurm unpin: {why}, unpinned {' '.join(job_ids)}"
            syslog.syslog(syslog.LOG_WARNING, line)
    return 0


def _shown_config() -> str:
    from roost_slurm import command_run
    from roost_slurm.text import commands

    return command_run.answer_of(commands.show_config(), timeout_s=30.0)


def _model_names(pairs: Sequence[str]) -> dict[str, str]:
    from roost_slurm.site.config import ConfigError

    names = {}
    for pair in pairs:
        long_name, equals, short_name = pair.rpartition("=")
        if not (long_name and equals and short_name):
            raise ConfigError(f"--model {pair!r}: want LONG=SHORT")
        names[long_name] = short_name
    return names


if __name__ == "__main__":
    sys.exit(main())
