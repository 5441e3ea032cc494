"""Places at which a test may kill the daemon, to prove that dying there loses nothing.

`ROOST_FAILPOINT=after_set` sends this process SIGKILL when it first comes by that place,
`after_set:3` at the third time. Without the variable every place costs one dictionary look-up.
Only tests set it (tests/e2e/test_local_crash.py); the shipped unit file clears it.
"""

import os
import signal
from collections import Counter
from typing import Literal, TypeAlias

VARIABLE = "ROOST_FAILPOINT"

FailPoint: TypeAlias = Literal[
    "after_decide",  # the engine answered, the journal knows nothing of it
    "after_journal",  # the answer is on disk, Slurm knows nothing of it
    "after_set",  # Slurm was told to start the job on exact GPUs; nobody here knows yet
    "after_pin",  # the adapter came back, the engine has not been told
    "after_renew",  # leases are longer, nothing else changed
    "before_requeue",  # a running job is to be stopped and the journal says so; Slurm does not know
    "after_requeue",  # Slurm was told to stop it; nobody here knows yet
    "after_return",  # it waits again as its user submitted it, under a lease
]

_visits: Counter[str] = Counter()


def reach(point: FailPoint) -> None:
    """Die here if a test asked for it."""
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    name, _, count = wanted.partition(":")
    if name != point:
        return
    _visits[point] += 1
    if _visits[point] == int(count or 1):
        os.kill(os.getpid(), signal.SIGKILL)
