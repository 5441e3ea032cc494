"""Starts the program `roost-sim`: its imports take a second, in which Ctrl-C is met quietly."""

import sys

EXIT_INTERRUPTED = 130  # as roost_sim.exit_codes, which is not imported yet


def main() -> None:
    """Entry point of the console script."""
    try:
        from roost_sim.cli import main as run  # here, so that Ctrl-C meets the handler below

        run()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
