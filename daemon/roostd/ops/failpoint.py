"""Places at which a test may kill the daemon, to prove that a crash there loses nothing.

`ROOST_FAILPOINT=after_set` sends this process SIGKILL when it first reaches that place,
`after_set:3` at the third time. Without the variable a place costs one dictionary look-up. Only
tests set it (tests/e2e/test_local_crash.py); the shipped unit file clears it.
"""

import os
import signal
from collections import Counter
from typing import Literal, TypeAlias

VARIABLE = "ROOST_FAILPOINT"

FailPoint: TypeAlias = Literal[
    "after_decide",  # the engine returned a placement; it is not in the journal yet
    "after_journal",  # the placement is in the journal; Slurm was not asked yet
    "after_set",  # Slurm has the pin; the call to the port has not returned
    "after_pin",  # the call to the port returned; Slurm was not polled yet
    "after_renew",  # Slurm has the renewed leases
    "before_requeue",  # the journal has the stop of a running job; Slurm was not asked yet
    "after_requeue",  # Slurm was asked to stop the job; the call to the port has not returned
    "after_return",  # the stopped job waits again with its user's request, under a lease
]

_visits: Counter[str] = Counter()


def reach(point: FailPoint) -> None:
    """Kill this process if a test asked for it at this place."""
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    name, _, count = wanted.partition(":")
    if name != point:
        return
    _visits[point] += 1
    if _visits[point] == int(count or 1):
        os.kill(os.getpid(), signal.SIGKILL)
