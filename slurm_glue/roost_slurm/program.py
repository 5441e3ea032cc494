"""Starts a program whose imports take long: Ctrl-C ends it quietly at any time."""

import io
import signal
import sys
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

EXIT_INTERRUPTED = 130  # as shells report SIGINT


def run_program(load: Callable[[], Callable[[], Result]]) -> Result | int:
    """Import a program and run it.

    During the imports and after the run SIGINT acts as in a program without Python, which shells
    report as 130 too: a KeyboardInterrupt there shows a traceback, or is lost within a module.

    Args:
        load: imports the program, and returns its `main`.

    Returns:
        What the program returned, or EXIT_INTERRUPTED.
    """
    _escape_unencodable_output()
    # A shell's background jobs ignore SIGINT, and continue to.
    is_met = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_met:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    run = load()
    if is_met:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        if is_met:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _escape_unencodable_output() -> None:
    """Print characters that the locale cannot encode as escapes, not as a traceback.

    Names of jobs may have such characters, and so have our tables. stderr does so by itself.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
