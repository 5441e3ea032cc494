"""Repeats an action until Ctrl-C."""

import time
from collections.abc import Callable

import grpc

from roostctl.clients.calls import CallFailed
from roostctl.output.console import complain

PASSING = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})


def repeat(
    frame: Callable[[], None],
    interval_s: float | None,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Call `frame` once, or every so many seconds until Ctrl-C.

    A daemon that restarts is waited for; a daemon that never answered is an error.

    Args:
        frame: prints the present state.
        interval_s: seconds between two calls; None: once only.
        pause: how to wait.
    """
    frame()
    try:
        while interval_s is not None:
            pause(interval_s)
            try:
                frame()
            except CallFailed as error:
                if error.code not in PASSING:
                    raise
                complain(str(error))
    except KeyboardInterrupt:
        return
