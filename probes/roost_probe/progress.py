"""The `roost-progress` command: a job says how many steps of its work are done.

It imports nothing of the probe but its version, because a batch script starts it every minute.
"""

import argparse
import contextlib
import json
import os
import re
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from roost_probe.version import VERSION

_SOCKET = Path("/run/roost-probe/agent.sock")  # of roost-probe.service
_TIMEOUT_S = 1.0  # the agent waits half a second for roostd
_MOST_ANSWER_BYTES = 4096
_NUMBER = re.compile(r"[0-9]{1,20}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        0, also where the report was not taken: a script with `set -e` shall not end by that.
    """
    options = _parser().parse_args(argv)
    if problem := _report(options.agent_socket, options.job, options.steps):
        _complain(problem)
    return 0


def _complain(problem: str) -> None:
    """Say it on stderr, which may be a file on a full disk: that must not end the script."""
    line = f"roost-progress: {problem}\n".encode(errors="backslashreplace")
    with contextlib.suppress(OSError):  # sys.stderr would fail again when Python ends
        os.write(2, line)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="roost-progress",
        description="Tell Roost how many steps a job has done. To be called from the job, once a"
        " minute or less often.",
        epilog="Exit codes: 0 reported, or a line on stderr says why not; 2 wrong usage."
        " Example: roost-progress 4000",
    )
    parser.add_argument("--version", action="version", version=f"roost-progress, version {VERSION}")
    parser.add_argument(
        "steps", metavar="STEPS", type=_step_count, help="steps done since the start of the run"
    )
    parser.add_argument(
        "--job",
        metavar="ID",
        default=os.environ.get("SLURM_JOB_ID", ""),
        help="the job, by Slurm's number (default: SLURM_JOB_ID, the job that calls)",
    )
    parser.add_argument(
        "--agent-socket",
        type=Path,
        metavar="PATH",
        default=_SOCKET,
        help="the socket of the node's probe (default %(default)s)",
    )
    return parser


def _step_count(text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text!r}: want a number of steps, 0 or more")
    return int(text)


def _report(path: Path, job: str, step_count: int) -> str:
    """Send one report, and return why it was not taken; empty: it was."""
    if not _NUMBER.fullmatch(job):
        return f"the job is {job!r}; call it from a job of Slurm, or give its number with --job"
    request = {"op": "progress", "job_id": int(job), "steps": step_count}
    try:
        with socket.socket(socket.AF_UNIX) as agent:
            agent.settimeout(_TIMEOUT_S)
            agent.connect(str(path))
            agent.sendall(json.dumps(request).encode() + b"\n")
            with agent.makefile("rb") as lines:
                answer = json.loads(lines.readline(_MOST_ANSWER_BYTES))
        return str(answer.get("error") or answer.get("reason") or "")
    except OSError as error:
        return f"{path}: {error.strerror or error}; does roost-probe run on this node?"
    except (ValueError, AttributeError):
        return f"{path}: the answer is none of a roost-probe"


if __name__ == "__main__":
    sys.exit(main())
