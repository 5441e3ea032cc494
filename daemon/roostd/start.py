"""Starts the program `roostd`, and meets the signals that come before it is ready."""

import signal
import sys


def main() -> None:
    """Entry point of the console script.

    A SIGHUP is kept back by the kernel until roostd can reload. SIGINT and SIGTERM end it as they
    end a program without Python: nothing is open yet that needs an end of its own.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a KeyboardInterrupt shows a traceback
    from roostd.cli import main as run  # here, after the signals

    sys.exit(run())


if __name__ == "__main__":
    main()
