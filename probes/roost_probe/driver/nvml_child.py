"""The process that calls the driver: answers each line on stdin with one line on stdout.

    facts           the topology
    load            the load
    jobs 0 3        what Slurm jobs use of the memory of GPUs 0 and 3

A driver call may hang or crash, so the calls run in a process of their own. Start it with the PCIe
source as its argument; it ends when stdin does, or when its parent is gone.
"""

import contextlib
import ctypes
import os
import signal
import sys

from roost_probe.driver.nvml import Nvml, PcieSource
from roost_probe.driver.readings import Reading, Unavailable, encode
from roost_probe.errors import DriverFault

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Answer until stdin ends."""
    # A hung child never reads the end of stdin; the kernel kills it when its parent ends.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # drivers print to stdout at times; that must not end up among the answers
    nvml = Nvml(PcieSource(sys.argv[1]))
    with contextlib.suppress(BrokenPipeError):  # the parent has gone
        for line in sys.stdin.buffer:
            try:
                answer = _answer(nvml, line)
            except DriverFault as fault:
                answer = Unavailable(problem=str(fault))
            answers.write(encode(answer))
    nvml.close()
    return 0


def _answer(nvml: Nvml, line: bytes) -> Reading:
    match line.split():
        case [b"facts"]:
            return nvml.facts()
        case [b"load"]:
            return nvml.load()
        case [b"jobs", *gpus]:
            return nvml.jobs(frozenset(map(int, gpus)))
    raise ValueError(f"no command: {line!r}")


if __name__ == "__main__":
    sys.exit(main())
