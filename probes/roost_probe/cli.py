"""The `roost-probe` command."""

import argparse
import asyncio
import logging
import os
import random
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from roost_probe.driver.nvml_process import NvmlProcess
from roost_probe.errors import ProbeError, SettingsError
from roost_probe.version import VERSION

if TYPE_CHECKING:
    from roost_probe.agent.daemon_link import Tls

DEFAULT_PORT = 7471


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        0 success, 1 the driver gave nothing to show or it cannot be printed, 2 wrong usage.
    """
    try:
        options = _parser().parse_args(argv)
    except SystemExit as ended:  # after --help
        sys.exit(_print("", end="") or ended.code)
    logging.basicConfig(
        level=logging.DEBUG if options.verbose else logging.INFO,
        format="%(levelname)s %(name)s: %(message)s",  # the journal adds the time
        stream=sys.stderr,
    )
    try:
        if options.print_topology:
            return asyncio.run(_print_topology(options))
        if options.once:
            return asyncio.run(_print_once(options))
        return _run_agent(options)
    except SettingsError as error:
        print(f"roost-probe: {error}", file=sys.stderr)
        return 2
    except ProbeError as error:
        print(f"roost-probe: {error}", file=sys.stderr)
        return 1


def _print(text: str, end: str = "\n") -> int:
    """Print, and return 1 where stdout cannot be written; its reader may leave (`| head -1`)."""
    try:
        print(text, end=end, flush=True)
    except OSError as error:
        with open(os.devnull, "wb") as nowhere:  # or Python fails on what is left in the buffer
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"roost-probe: the output cannot be written: {error.strerror}", file=sys.stderr)
            return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="roost-probe",
        description="Stream this node's GPU topology and load to roostd.",
        epilog="Exit codes: 0 done, 1 the driver gives nothing to show, 2 wrong usage. Examples:"
        " roost-probe --print-topology --json; roost-probe --daemon control1:7471",
    )
    parser.add_argument("--version", action="version", version=f"roost-probe, version {VERSION}")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--print-topology", action="store_true", help="print the links and exit")
    what.add_argument("--once", action="store_true", help="print one sample and exit")
    parser.add_argument("--json", action="store_true", help="print that as JSON")
    parser.add_argument(
        "--daemon",
        metavar="HOST:PORT",
        help="where roostd listens; needed without --print-topology and --once"
        f" (default port {DEFAULT_PORT})",
    )
    parser.add_argument(
        "--node",
        default=socket.gethostname().split(".")[0],
        help="this node's name in slurm.conf (default: the host's short name, %(default)s)",
    )
    _add_seconds(parser, "--interval-s", 1.0, "time between two samples")
    parser.add_argument(
        "--agent-socket",
        type=Path,
        metavar="PATH",
        help="serve the Slurm hooks at this UNIX socket (default: do not)",
    )
    _add_certificates(parser)
    parser.add_argument(
        "--pcie",
        choices=("counters", "blocking", "off"),
        default="counters",
        help="where PCIe rates come from; blocking takes 40 ms a GPU (default %(default)s)",
    )
    _add_seconds(parser, "--facts-timeout-s", 60.0, "give up reading models and links after it")
    _add_seconds(parser, "--load-timeout-s", 5.0, "give up reading the load after it")
    _add_seconds(parser, "--facts-interval-s", 300.0, "read models and links again after it")
    parser.add_argument(
        "--sysfs-root",
        type=Path,
        metavar="FOLDER",
        default=Path("/sys"),
        help="where PCIe and NUMA are read (default %(default)s)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="log debug messages too")
    return parser


def _add_certificates(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tls-ca",
        type=Path,
        metavar="FILE",
        help="certificate of the authority that signed roostd's; with --tls-cert and --tls-key"
        " (default: no TLS)",
    )
    parser.add_argument(
        "--tls-cert",
        type=Path,
        metavar="FILE",
        help="this node's certificate, with its name as subject alternative name",
    )
    parser.add_argument(
        "--tls-key", type=Path, metavar="FILE", help="the key of this node's certificate"
    )


def _add_seconds(
    parser: argparse.ArgumentParser, option: str, default_s: float, meaning: str
) -> None:
    parser.add_argument(
        option,
        type=_positive,
        metavar="SECONDS",
        default=default_s,
        help=f"{meaning} (default {default_s:g})",
    )


def _driver(options: argparse.Namespace) -> NvmlProcess:
    return NvmlProcess(options.pcie, options.facts_timeout_s, options.load_timeout_s)


async def _print_topology(options: argparse.Namespace) -> int:
    from roost_probe.node.topology import Topology
    from roost_probe.show import format_json, format_matrix

    driver = _driver(options)
    try:
        topology = Topology.of(await driver.facts(), options.sysfs_root)
    finally:
        await driver.close()
    text = format_json(topology, options.node) if options.json else format_matrix(topology)
    code = _print(text)
    for problem in topology.problems:
        print(f"roost-probe: {problem}", file=sys.stderr)
    return code


async def _print_once(options: argparse.Namespace) -> int:
    from roost_probe.node.sampler import Sampler
    from roost_probe.show import format_sample, format_sample_json

    driver, sampler = _driver(options), Sampler()
    try:
        facts = await driver.facts()
        sampler.sample(await driver.load())
        await asyncio.sleep(options.interval_s)  # rates need two readings
        sample = sampler.sample(await driver.load())
    finally:
        await driver.close()
    return _print(format_sample_json(facts, sample) if options.json else format_sample(sample))


def _run_agent(options: argparse.Namespace) -> int:
    # Printing needs no gRPC, and gRPC is most of the start-up time.
    from roost_probe.agent.agent import Agent, AgentSettings, run_until_stopped
    from roost_probe.agent.daemon_link import DaemonAddress
    from roost_probe.agent.notify import Notifier
    from roost_probe.node.monitor import Monitor

    if not options.daemon:
        raise SettingsError("--daemon HOST:PORT is missing")
    settings = AgentSettings(
        node=options.node,
        daemon=DaemonAddress(target=_target(options.daemon), tls=_tls(options)),
        interval_s=options.interval_s,
        agent_socket=options.agent_socket,
    )
    monitor = Monitor(_driver(options), options.sysfs_root, options.facts_interval_s)
    run_until_stopped(Agent(settings, monitor, Notifier(os.environ), random.Random()))
    return 0


def _target(daemon: str) -> str:
    host, colon, port = daemon.rpartition(":")
    if colon and host and port.isdigit():
        return daemon
    if colon and not daemon.endswith("]"):
        raise SettingsError(f"--daemon {daemon}: want HOST:PORT")
    return f"{daemon}:{DEFAULT_PORT}"


def _tls(options: argparse.Namespace) -> "Tls | None":
    from roost_probe.agent.daemon_link import Tls

    files = (options.tls_ca, options.tls_cert, options.tls_key)
    if not any(files):
        return None
    if not all(files):
        raise SettingsError("--tls-ca, --tls-cert and --tls-key go together")
    return Tls(ca=options.tls_ca, certificate=options.tls_cert, key=options.tls_key)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text}: want a number of seconds above 0")
    return value


if __name__ == "__main__":
    sys.exit(main())
