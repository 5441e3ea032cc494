"""The command `roost-slurm migrate`: GPU types by index, node by node, while jobs run."""

import argparse
import subprocess
import sys
from pathlib import Path

from roost_slurm.command_run import answer_of
from roost_slurm.migrate.migrate import Stage, Step, parse_nodes, plan
from roost_slurm.migrate.migrate_files import (
    MigrateError,
    NodeWords,
    gres_conf,
    slurm_conf,
    words_of,
)
from roost_slurm.site.conf_text import read_conf, replace_conf
from roost_slurm.text import commands
from roost_slurm.text.squeue import parse_queue

UNFINISHED, BAD_INPUT = 1, 2
BACKUP = ".before-roost"
_PATIENCE_S = 60.0  # for Slurm


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `migrate`."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--plan", action="store_true", help="say what can be done with each node now")
    what.add_argument("--check", action="store_true", help="exit with 0 when every node is done")
    what.add_argument(
        "--step", metavar="NODE", help="change slurm.conf and gres.conf for a drained, empty node"
    )
    what.add_argument(
        "--features",
        action="store_true",
        help="before the first step: write each node's model as Feature= into slurm.conf",
    )
    parser.add_argument(
        "--files",
        type=Path,
        default=Path("/etc/slurm/roost"),
        metavar="FOLDER",
        help="what `roost-slurm config --out FOLDER` made (default %(default)s)",
    )
    parser.add_argument(
        "--back", action="store_true", help="the way back: the site's own types, from the backups"
    )
    parser.add_argument(
        "--slurm-folder",
        type=Path,
        metavar="FOLDER",
        default=Path("/etc/slurm"),
        help="the folder of slurm.conf (default %(default)s)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    try:
        steps = _steps(args)
        if args.features:
            return _add_features(args, [step.node for step in steps])
        if args.step:
            return _change(args, {step.node: step for step in steps})
    except (MigrateError, OSError, ValueError, subprocess.SubprocessError) as error:
        why = str(getattr(error, "stderr", None) or error).strip()
        print(f"roost-slurm migrate: {why}", file=sys.stderr)
        return BAD_INPUT
    for step in steps:
        if args.plan or step.stage is not Stage.DONE:
            print(step)
    left = [step for step in steps if step.stage is not Stage.DONE]
    if args.plan and (ready := [step for step in steps if step.stage is Stage.READY]):
        back = " --back" if args.back else ""
        print(f"next: roost-slurm migrate --step {ready[0].node}{back}")
    return UNFINISHED if left and args.check else 0


def _steps(args: argparse.Namespace) -> list[Step]:
    nodes = parse_nodes(answer_of(commands.show_nodes(), _PATIENCE_S))
    source = read_conf(_source(args, "slurm.conf" if args.back else "nodes.conf"))
    wanted = {}
    for node in nodes:
        words = words_of(source, node.name)
        if words is not None and words.gres:
            wanted[node.name] = words.gres
    return plan(nodes, wanted, parse_queue(answer_of(commands.queue(), _PATIENCE_S)).jobs)


def _change(args: argparse.Namespace, steps: dict[str, Step]) -> int:
    step = steps.get(args.step)
    if step is None:
        raise MigrateError(f"{args.step}: no GPU node of Slurm that {args.files} describes")
    if step.stage is not Stage.READY:
        raise MigrateError(f"{step}; nothing was changed")
    for name in ("slurm.conf", "gres.conf"):
        _back_up(args.slurm_folder / name)
    _write(args, step.node, sorted(steps))
    node = step.node
    print(f"slurm.conf and gres.conf have the types of {node} now. Next:")
    print("  systemctl restart slurmctld        # jobs keep running")
    print(f"  systemctl restart slurmd           # on {node}, with the same files")
    print(f"  scontrol update nodename={node} state=resume")
    return 0


def _add_features(args: argparse.Namespace, nodes: list[str]) -> int:
    """Write every node's feature, and nothing of its GPUs: jobs that name a model ask for it."""
    conf = args.slurm_folder / "slurm.conf"
    source = read_conf(_source(args, "nodes.conf"))
    before = text = read_conf(conf)
    for node in nodes:
        own, new = words_of(text, node), words_of(source, node)
        if own is None or new is None:
            continue
        features = joined(own.features, new.features)
        if features != own.features:
            text = slurm_conf(text, node, NodeWords(own.gres, features))
    if text == before:
        print("every node has its feature")
        return 0
    _back_up(conf)
    replace_conf(conf, text)
    print(f"{conf} has the features now. Next:\n  scontrol reconfigure")
    return 0


def joined(own: str, added: str) -> str:
    """Return two lists of features as one: the site's first, each once."""
    return ",".join(dict.fromkeys(filter(None, [*own.split(","), *added.split(",")])))


def _write(args: argparse.Namespace, node: str, all_nodes: list[str]) -> None:
    conf, gres = args.slurm_folder / "slurm.conf", args.slurm_folder / "gres.conf"
    name = "slurm.conf" if args.back else "nodes.conf"
    words = words_of(read_conf(_source(args, name)), node) or NodeWords()
    own = words_of(read_conf(conf), node)
    if own is not None and not args.back:
        words = NodeWords(words.gres, joined(own.features, words.features))
    new_conf = slurm_conf(read_conf(conf), node, words)
    present = read_conf(gres) if gres.exists() else ""
    source = read_conf(_source(args, "gres.conf"))
    new_gres = gres_conf(present, source, node, all_nodes)
    replace_conf(gres, new_gres)
    replace_conf(conf, new_conf)


def _source(args: argparse.Namespace, name: str) -> Path:
    folder: Path = args.slurm_folder if args.back else args.files
    return folder / (f"{name}{BACKUP}" if args.back else name)


def _back_up(path: Path) -> None:
    backup = path.with_name(f"{path.name}{BACKUP}")
    if not backup.exists():
        replace_conf(backup, read_conf(path) if path.exists() else "")
