"""A small running Roost whose parts a test may kill, and the jobs that must survive it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.conftest import missing
from tests.e2e.ledger import clear, submit, without_node_hooks

from roost_demo.stack import NodeKind, Stack
from roost_slurm.testing.availability import LocalSlurmUnavailable

LEASE_S = 10
NODES = (
    NodeKind(name="n1", topology="bridges8"),
    NodeKind(name="n2", topology="cube8"),
)
GPU_COUNTS = (2, 4, 1, 8, 2, 3, 6, 1)


@contextmanager
def two_nodes() -> Iterator[Stack]:
    """The running stack; skips the test where there is no Slurm."""
    try:
        with Stack(NODES, lease_s=LEASE_S, amend_plan=without_node_hooks) as running:
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


@contextmanager
def mended_afterwards(stack: Stack) -> Iterator[Stack]:
    """Whatever a test does to the daemon, the next one finds it fresh and healthy, and no job."""
    try:
        yield stack
    finally:
        stack.stop_roostd(signal.SIGKILL)
        stack.start_roostd()
        clear(stack)


def submit_all(stack: Stack) -> dict[str, int]:
    """Submit eight jobs, more than fit at once. Returns the GPUs of each."""
    return {
        submit(stack.slurm, f"--gres=gpu:{count}", command="sleep 0.3"): count
        for count in GPU_COUNTS
    }
