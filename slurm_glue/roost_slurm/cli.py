"""`roost-slurm`: makes Slurm's files, and is what Slurm's hooks call.

Exit codes: 0 done; 1 the answer is no: `config --check` found differences, `check` a setting
missing that Roost needs (with --strict also one that it recommends), `certs --check` an old
certificate, `doctor` a problem, `migrate --check` a node that is not done; 2 wrong input, nothing
was written, `release` while roostd is alive, or Slurm does not answer or refuses; 74 the output
cannot be written. `hook` always exits 0. Each command has --help with an example.
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
MOST_DAYS = 36_500


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    arguments = sys.argv[1:] if argv is None else argv
    if start.is_hook_call(arguments):
        return start.run_hook(arguments[1:])
    args = _parser().parse_args(arguments)
    if run := getattr(args, "run", None):
        return int(run(args))
    if args.command == "certs":
        return _certs(args)
    return _check(args) if args.command == "check" else _config(args)


def _parser() -> argparse.ArgumentParser:
    from roost_slurm.doctor import doctor_command
    from roost_slurm.guards import guards_command
    from roost_slurm.install import install_command
    from roost_slurm.migrate import migrate_command

    parser = argparse.ArgumentParser(prog="roost-slurm", description=__doc__)
    parser.add_argument("--version", action=ShowVersion)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")

    def command(name: str, meaning: str, example: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=meaning,
            description=f"{meaning[0].upper()}{meaning[1:]}.",
            epilog=f"Example: roost-slurm {name} {example}",
        )

    _add_hook(command("hook", "run a hook; what Slurm's prologs and epilogs call", "prolog"))
    unpin = command(
        "unpin",
        "while roostd is dead: let Slurm start waiting jobs that are pinned, anywhere",
        "--runtime-folder /run/roost",
    )
    release = command(
        "release",
        "after roostd was stopped: end the leases of waiting jobs now; their users' own begin times"
        " stay",
        "--runtime-folder /run/roost",
    )
    _add_runtime_folder(unpin)
    guards_command.add_unpin(unpin)
    _add_runtime_folder(release)
    guards_command.add_release(release)
    _add_check(command("check", "look whether slurm.conf has what Roost needs", "--strict"))
    _add_certs(
        command(
            "certs",
            "make certificates for roostd and the probes",
            "roost-tls --daemon control1 --nodes 'gpu[01-16]'",
        )
    )
    install_command.add_install(
        command("install", "put units, hooks and scripts in place", "--role controller --plan")
    )
    install_command.add_uninstall(
        command("uninstall", "remove what install has written", "--prefix /opt/roost")
    )
    doctor_command.add(
        command("doctor", "tell what is wrong on this machine, and the cure", "--json")
    )
    migrate_command.add(
        command("migrate", "change GPU types to indices, node by node, while jobs run", "--plan")
    )
    _add_config(
        command("config", "make gres.conf and the rest from the topology", "*.json --out roost-etc")
    )
    return parser


def _add_hook(hook: argparse.ArgumentParser) -> None:
    """Describe what `start.run_hook` reads, without argparse and its 20 ms."""
    from roost_slurm.hooks.hooks import HookName

    hook.add_argument("name", choices=[*HookName], metavar="NAME", help=", ".join(HookName))
    _add_runtime_folder(hook)
    hook.add_argument("--mps", action="store_true", help="CUDA MPS for jobs that opt in to share")


def _add_check(check: argparse.ArgumentParser) -> None:
    check.add_argument("--models", action="store_true", help="users name GPU models in requests")
    check.add_argument("--strict", action="store_true", help="recommended settings count as needed")
    check.add_argument(
        "--from",
        type=Path,
        dest="file",
        metavar="FILE",
        help="output of `scontrol show config` (default: run it)",
    )


def _add_runtime_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runtime-folder",
        type=Path,
        metavar="FOLDER",
        default=DEFAULT_RUNTIME_FOLDER,
        help="paths.runtime_dir of roostd.yaml (default %(default)s)",
    )


def _add_config(config: argparse.ArgumentParser) -> None:
    config.add_argument(
        "topology",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="NODE.json of `roost-probe --print-topology --json`, or one file for all nodes",
    )
    config.add_argument(
        "--out", type=Path, metavar="FOLDER", required=True, help="folder to write to"
    )
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
    _add_runtime_folder(config)
    config.add_argument(
        "--hooks-folder",
        type=Path,
        metavar="FOLDER",
        default=Path("/etc/slurm/hooks"),
        help="where the hooks will be (default %(default)s)",
    )
    config.add_argument(
        "--device-prefix",
        metavar="PATH",
        default="/dev/nvidia",
        help="device files of the GPUs, less their number (default %(default)s)",
    )
    config.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="LONG=SHORT",
        help="short name of a model, such as 'NVIDIA A100-SXM4-80GB=a100-80'",
    )


def _add_certs(certs: argparse.ArgumentParser) -> None:
    from roost_slurm.site.certs import DAYS, RENEW_BEFORE_DAYS

    certs.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="the authority's files, made if missing; keep it off the cluster",
    )
    certs.add_argument(
        "--daemon",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name or address by which probes reach roostd; give each one",
    )
    certs.add_argument(
        "--nodes", default="", metavar="LIST", help="nodes with a probe, such as gpu[01-16]"
    )
    certs.add_argument(
        "--domain", default="", help="each node's certificate also names NODE.DOMAIN"
    )
    certs.add_argument(
        "--days", type=_days, default=DAYS, help="how long they are valid (default %(default)s)"
    )
    certs.add_argument(
        "--renew-before",
        type=_days,
        default=RENEW_BEFORE_DAYS,
        metavar="DAYS",
        help="certificates that expire earlier are made again (default %(default)s)",
    )
    certs.add_argument(
        "--revoke", metavar="NODE", help="add this node's certificates to revoked.txt"
    )
    certs.add_argument("--check", action="store_true", help="list what expires; change nothing")


def _days(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_DAYS:
        raise argparse.ArgumentTypeError(f"{text}: want 1 to {MOST_DAYS} days")
    return int(text)


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
            for digest in authority.revoke(args.revoke):
                print(f"{digest} {args.revoke}")
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
    from roost_slurm.site import conf_text, site_check

    try:
        text = conf_text.read_conf(args.file) if args.file else _shown_config()
        findings = site_check.check(text, uses_models=args.models)
    except OSError as error:
        print(f"roost-slurm check: {args.file or 'scontrol'}: {error.strerror}", file=sys.stderr)
        return BAD_INPUT
    except (ValueError, subprocess.SubprocessError) as error:
        print(f"roost-slurm check: {error}", file=sys.stderr)
        return BAD_INPUT
    for finding in findings:
        print(finding)
    counts = [args.strict or f.level is site_check.Level.NEEDED for f in findings]
    return MISSING if any(counts) else 0


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
