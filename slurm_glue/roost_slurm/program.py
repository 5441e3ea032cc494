"""Starts a program with slow imports: Ctrl-C, or a reader that leaves, ends it quietly.

Output that cannot be written is one line on stderr.
"""

import errno
import io
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")

EXIT_NOT_WRITTEN = 74  # EX_IOERR of sysexits.h: no other exit code of ours
EXIT_INTERRUPTED = 130  # as shells report SIGINT
EXIT_NOT_READ = 141  # as shells report SIGPIPE
_DISK_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


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
        SystemExit: stdout cannot be written, because its disk is full for instance.
        BrokenPipeError: of another pipe or socket.
    """
    try:
        try:
            yield
        except SystemExit:  # argparse after --help
            _flush()
            raise
        _flush()
    except BrokenPipeError:
        if not _is_reader_gone():
            raise
        _drop_output()
    except OSError as error:
        if error.errno not in _DISK_FAULTS or error.filename is not None:
            raise
        _drop_output()
        program, why = os.path.basename(sys.argv[0]), os.strerror(error.errno)
        print(f"{program}: the output cannot be written: {why}", file=sys.stderr)
        raise SystemExit(EXIT_NOT_WRITTEN) from error


def _drop_output() -> None:
    """Send what is left in the buffer of stdout nowhere, or Python fails on it at the end."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _flush() -> None:
    if sys.stdout is not None:  # None: closed by the caller
        sys.stdout.flush()


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
