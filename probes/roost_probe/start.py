"""Starts the program `roost-probe`, and meets the signals that come before it is ready.

It does without `roost_slurm.program`: a node's probe knows no other part of Roost but the messages.
"""

import signal
import sys


def main() -> None:
    """Entry point of the console script.

    A SIGHUP is kept back by the kernel until the probe can reload. SIGINT and SIGTERM end it as
    they end a program without Python; the driver's process sees that its parent has gone.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a KeyboardInterrupt shows a traceback
    # asyncio then does without it, as on a Python built without ssl: 4 MB, on each node. gRPC has a
    # TLS of its own.
    sys.modules["ssl"] = None  # type: ignore[assignment]
    from roost_probe.cli import main as run  # here, after the signals

    sys.exit(run())


if __name__ == "__main__":
    main()
