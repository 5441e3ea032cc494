"""Starts a program with slow imports: Ctrl-C, or a reader that leaves, ends it quietly."""

import io
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")

EXIT_INTERRUPTED = 130  # as shells report SIGINT
EXIT_NOT_READ = 141  # as shells report SIGPIPE


def run_program(load: Callable[[], Callable[[], Result]]) -> Result | int:
    """Import a program and run it.

    During the imports and after the run SIGINT acts as in a program without Python, which shells
    report as 130 too: a KeyboardInterrupt there shows a traceback, or is lost within a module.

    Args:
        load: imports the program, and returns its `main`.

    Returns:
        What the program returned, EXIT_INTERRUPTED, or EXIT_NOT_READ where the reader of its output
        left before it was done.
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
        with output_may_be_cut():
            return run()
        return EXIT_NOT_READ
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        if is_met:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def output_may_be_cut() -> Iterator[None]:
    """End the block without an error where the reader of stdout has left (`| head -1`).

    Raises:
        BrokenPipeError: of another pipe or socket.
    """
    try:
        yield
        _flush()
    except BrokenPipeError:
        if not _is_reader_gone():
            raise
        # What is left in the buffer goes nowhere, or Python fails on it at the end.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _flush() -> None:
    if sys.stdout is None:  # closed by the caller
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        pass  # a full disk: Python says so when the program ends


def _is_reader_gone() -> bool:
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # POLLERR needs no asking for
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _escape_unencodable_output() -> None:
    """Print characters that the locale cannot encode as escapes, not as a traceback.

    Names of jobs may have such characters, and so have our tables. stderr does so by itself.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
