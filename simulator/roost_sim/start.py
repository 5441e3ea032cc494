"""Starts the program `roost-sim`: its imports take a second, in which Ctrl-C is met quietly.

The simulator knows nothing of Slurm's part, so this is `roost_slurm.program` once more, in short.
"""

import io
import signal
import sys

from roost_sim.exit_codes import EXIT_INTERRUPTED


def main() -> None:
    """Entry point of the console script."""
    is_met = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_met:  # within an import a KeyboardInterrupt shows a traceback, or is lost
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What the locale cannot encode is printed as escapes, not as a traceback; stderr does so
        # by itself.
        sys.stdout.reconfigure(errors="backslashreplace")
    from roost_sim.cli import main as run

    if is_met:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
