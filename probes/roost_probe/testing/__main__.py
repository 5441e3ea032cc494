"""`python -m roost_probe.testing`: make a fake node and change it while it runs."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from roost_probe.testing.description import (
    Fault,
    FaultSpec,
    NodeDescription,
    load_description,
    load_topology,
    parse_settings,
)
from roost_probe.testing.errors import DescriptionError
from roost_probe.testing.fake_driver import FakeDriver, make_sysfs
from roost_probe.testing.library import build_library
from roost_probe.testing.matrix import sample_names, sample_text


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 2 for a wrong argument or file."""
    options = _parser().parse_args(argv)
    try:
        options.run(options)
    except DescriptionError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m roost_probe.testing", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    create = commands.add_parser("create", help="make the state file of a node")
    create.add_argument("--state", type=Path, required=True, help="the state file to write")
    what = create.add_mutually_exclusive_group(required=True)
    what.add_argument("--topology", help=f"file or sample: {', '.join(sample_names())}")
    what.add_argument("--describe", type=Path, metavar="YAML", help="a node description")
    create.add_argument("--model", help="GPU model name; with --topology")
    create.add_argument("--node", help="node name, so that UUIDs differ between nodes")
    create.add_argument("--lib-dir", type=Path, help="also build libnvidia-ml.so.1 here")
    create.add_argument("--sysfs", type=Path, help="also write a /sys with the NICs here")
    create.set_defaults(run=_create)

    change = commands.add_parser("set", help="change load: --gpu 3 sm_frac=0.9 power_w=250")
    change.add_argument("--state", type=Path, required=True)
    change.add_argument("--gpu", type=int, help="all of them if not given")
    change.add_argument("settings", nargs="+", metavar="NAME=VALUE")
    change.set_defaults(run=_set)

    fault = commands.add_parser("fault", help="break something")
    fault.add_argument("--state", type=Path, required=True)
    fault.add_argument("--gpu", type=int, help="all of them if not given")
    fault.add_argument(
        "fault", help="lost, xid=CODE, hang=CALL, crash=CALL, absent=QUANTITY, init=CODE"
    )
    fault.set_defaults(run=_fault)

    clear = commands.add_parser("clear", help="mend everything")
    clear.add_argument("--state", type=Path, required=True)
    clear.set_defaults(run=lambda options: FakeDriver.attach(options.state).clear_faults())

    library = commands.add_parser("library", help="build libnvidia-ml.so.1")
    library.add_argument("folder", type=Path)
    library.set_defaults(run=lambda options: print(build_library(options.folder)))

    show = commands.add_parser("topology", help="print a sample matrix")
    show.add_argument("name")
    show.set_defaults(run=lambda options: print(sample_text(options.name), end=""))
    return parser


def _create(options: argparse.Namespace) -> None:
    if options.describe is not None:
        description = load_description(options.describe)
    else:
        topology = load_topology(options.topology)
        description = NodeDescription(topology=topology)
        if options.model:
            description = NodeDescription(topology=topology, model=options.model)
    FakeDriver.create(description, options.state, options.node).close()
    if options.lib_dir is not None:
        build_library(options.lib_dir)
    if options.sysfs is not None:
        make_sysfs(description, options.sysfs)


def _set(options: argparse.Namespace) -> None:
    pairs = [text.partition("=") for text in options.settings]
    settings = parse_settings({name: yaml.safe_load(value) for name, _, value in pairs})
    driver = FakeDriver.attach(options.state)
    for gpu in range(driver.gpu_count) if options.gpu is None else (options.gpu,):
        driver.set(gpu, settings)


def _fault(options: argparse.Namespace) -> None:
    name, _, argument = options.fault.partition("=")
    if name not in set(Fault) or name == Fault.ERROR:
        raise DescriptionError(f"no fault {name!r}; known are lost, xid, hang, crash, absent, init")
    kind = Fault(name)
    takes_code = kind in (Fault.XID, Fault.INIT)
    if takes_code and argument and not argument.isdigit():
        raise DescriptionError(f"{name}={argument}: want a number")
    FakeDriver.attach(options.state).inject(
        FaultSpec(
            kind=kind,
            gpu=options.gpu,
            call=argument or None if kind in (Fault.HANG, Fault.CRASH) else None,
            quantity=argument or None if kind is Fault.ABSENT else None,
            code=int(argument) if takes_code and argument else None,
        )
    )


if __name__ == "__main__":
    sys.exit(main())
