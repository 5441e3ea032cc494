"""The command `roost-slurm migrate`: GPU types by index, node by node, while jobs run."""

import argparse
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from roost_slurm.command_run import answer_of
from roost_slurm.migrate.migrate import Stage, Step, parse_nodes, plan
from roost_slurm.migrate.migrate_files import (
    MigrateError,
    NodeWords,
    gres_conf,
    gres_names,
    node_words,
    slurm_conf,
    with_others,
)
from roost_slurm.site.conf_text import (
    all_lines,
    conf_lines,
    fetched_copy,
    read_conf,
    replace_conf,
)
from roost_slurm.text import commands
from roost_slurm.text.squeue import parse_queue
from roost_slurm.text.tres import GPU, SEAT_TOKEN

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
        if why := fetched_copy(args.slurm_folder):
            raise MigrateError(why)
        if args.features and args.back:
            raise MigrateError("--features has no --back: each --step NODE --back takes them away")
        steps = _steps(args)
        if args.features:
            return _add_features(args, [step.node for step in steps])
        if args.step:
            return _change(args, {step.node: step for step in steps})
    except (MigrateError, OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"roost-slurm migrate: {_why(error)}", file=sys.stderr)
        return BAD_INPUT
    for step in steps:
        if args.plan or step.stage is not Stage.DONE:
            print(step)
    left = [step for step in steps if step.stage is not Stage.DONE]
    if args.plan and (ready := [step for step in steps if step.stage is Stage.READY]):
        back = " --back" if args.back else ""
        print(f"next: roost-slurm migrate --step {ready[0].node}{back}")
    return UNFINISHED if left and args.check else 0


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        is_backup = str(error.filename).endswith(BACKUP)
        cure = "; migrate has changed nothing here" if is_backup else ""
        return f"{error.filename}: {error.strerror}{cure}"
    return str(error).strip()


def _steps(args: argparse.Namespace) -> list[Step]:
    nodes = parse_nodes(answer_of(commands.show_nodes(), _PATIENCE_S))
    after = _words_before_roost(args) if args.back else _words_of_roost(args)
    wanted = {}
    for node in nodes:
        words = after.get(node.name)
        if words is not None and words.gres:
            wanted[node.name] = (words if args.back else with_others(words, node.gres)).gres
    return plan(nodes, wanted, parse_queue(answer_of(commands.queue(), _PATIENCE_S)).jobs)


def _words_of_roost(args: argparse.Namespace) -> dict[str, NodeWords]:
    return node_words(conf_lines(read_conf(args.files / "nodes.conf")))


def _words_before_roost(args: argparse.Namespace) -> dict[str, NodeWords]:
    """Return the site's own words of each node, of slurm.conf and what it includes."""
    conf = args.slurm_folder / "slurm.conf"
    read_conf(_backup_of(conf))  # it must be there

    def before(path: Path) -> Path:
        return backup if (backup := _backup_of(path)).exists() else path

    return node_words(line for _, line in all_lines(conf, before))


def _change(args: argparse.Namespace, steps: dict[str, Step]) -> int:
    step = steps.get(args.step)
    if step is None:
        raise MigrateError(f"{args.step}: no GPU node of Slurm that {args.files} describes")
    if step.stage is not Stage.READY:
        raise MigrateError(f"{step}; nothing was changed")
    node, conf = step.node, _file_of(args, step.node)
    for path in (args.slurm_folder / "slurm.conf", args.slurm_folder / "gres.conf", conf):
        _back_up(path)
    _write(args, node, conf, sorted(steps))
    print(f"{conf.name} and gres.conf have the types of {node} now. Next:")
    print("  systemctl restart slurmctld        # jobs keep running")
    print(f"  systemctl restart slurmd           # on {node}, with the same files")
    print(f"  scontrol update nodename={node} state=resume")
    return 0


def _file_of(args: argparse.Namespace, node: str) -> Path:
    """Return the file with a node's NodeName line: slurm.conf, or one that it includes."""
    if path := _files(args).get(node):
        return path
    raise MigrateError(
        f"no NodeName line with {node} in {args.slurm_folder}/slurm.conf and the files that it"
        " includes; cure: --slurm-folder"
    )


def _files(args: argparse.Namespace) -> dict[str, Path]:
    found = dict[str, Path]()
    for path, line in all_lines(args.slurm_folder / "slurm.conf"):
        for node in node_words([line]):
            found.setdefault(node, path)
    return found


def _add_features(args: argparse.Namespace, nodes: list[str]) -> int:
    """Write every node's feature, and nothing of its GPUs: jobs that name a model ask for it."""
    own, new, files = _words_now(args), _words_of_roost(args), _files(args)
    changed = defaultdict[Path, dict[str, NodeWords]](dict)
    for node in nodes:
        if node not in own:
            if new[node].features:
                print(f"{node} has no NodeName line: give it Feature={new[node].features} by hand")
            continue
        features = joined(own[node].features, new[node].features)
        if features != own[node].features:
            changed[files[node]][node] = NodeWords(own[node].gres, features)
    if not changed:
        print("every node with a NodeName line has its feature")
        return 0
    for conf, words in changed.items():
        text = slurm_conf(read_conf(conf), words)
        _back_up(conf)
        replace_conf(conf, text)
    names = " and ".join(map(str, changed))
    print(f"{names} {'have' if len(changed) > 1 else 'has'} the features now. Next:")
    print("  scontrol reconfigure")
    return 0


def _words_now(args: argparse.Namespace) -> dict[str, NodeWords]:
    return node_words(line for _, line in all_lines(args.slurm_folder / "slurm.conf"))


def joined(own: str, added: str) -> str:
    """Return two lists of features as one: the site's first, each once."""
    return ",".join(dict.fromkeys(filter(None, [*own.split(","), *added.split(",")])))


def _write(args: argparse.Namespace, node: str, conf: Path, shown: list[str]) -> None:
    gres = args.slurm_folder / "gres.conf"
    now = _words_now(args)
    own = now[node]
    if args.back:
        words = _words_before_roost(args)[node]
    else:
        new = with_others(_words_of_roost(args)[node], own.gres)
        words = NodeWords(new.gres, joined(own.features, new.features))
    new_conf = slurm_conf(read_conf(conf), {node: words})
    present = read_conf(gres) if gres.exists() else ""
    source = read_conf(_backup_of(gres) if args.back else args.files / "gres.conf")
    # Powered-down and future nodes, too, have the lines of gres.conf that name no node.
    with_gpus = {name for name, said in now.items() if GPU in gres_names(said.gres)}
    kept = (gres_names(own.gres) & gres_names(words.gres)) - {GPU, SEAT_TOKEN}
    new_gres = gres_conf(present, source, node, with_gpus | {*shown}, kept)
    replace_conf(gres, new_gres)
    replace_conf(conf, new_conf)


def _backup_of(path: Path) -> Path:
    return path.with_name(f"{path.name}{BACKUP}")


def _back_up(path: Path) -> None:
    backup = _backup_of(path)
    if not backup.exists():
        replace_conf(backup, read_conf(path) if path.exists() else "")
