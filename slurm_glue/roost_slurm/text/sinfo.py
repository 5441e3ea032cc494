"""The states of a few nodes, by one `sinfo`: asked often, so it prints no more than that."""

from collections.abc import Sequence

from roost_slurm.text.commands import Argv
from roost_slurm.text.hostlist import compress

_OPEN = frozenset({"idle", "mixed", "allocated", "completing", "planned", "reserved"})
# What sinfo puts after a state; "*": slurmctld does not reach the node, which keeps it closed.
_MARKS = "~#!%$@^-+"


def node_states(names: Sequence[str]) -> Argv:
    """Print the state of each of these nodes; of a single one slurmctld sends no other node."""
    return ("sinfo", "--noheader", "--all", "-N", "-n", compress(names), "-o", "%N %T")


def parse_node_states(text: str) -> dict[str, str]:
    """Read the output of node_states: node name to its state, "idle" or "drained*".

    A node in several partitions has a line for each of them. Other lines are left out.
    """
    rows = (line.split() for line in text.splitlines())
    return {row[0]: row[1] for row in rows if len(row) == 2}


def takes_jobs(state: str) -> bool:
    """Return whether a node in this state may receive a job."""
    return state.rstrip(_MARKS) in _OPEN
