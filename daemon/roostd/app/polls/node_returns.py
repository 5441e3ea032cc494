"""Notices within a second that a drained or failed node takes jobs again, while jobs wait for it.

Slurm runs no hook then, and all nodes are read only once in `slurm.poll_interval_s`. So roostd asks
for the states of closed nodes in between, but only while a job waits that could use them.
A task of its own asks; see the daemon's tasks in docs/architecture.md.
"""

import asyncio
from collections.abc import Callable

from roost_engine.domain.errors import SlurmError
from roost_engine.domain.model import NodeName
from roost_slurm.text.sinfo import takes_jobs
from roostd.app.polls.seen_nodes import SeenNodes
from roostd.slurm.port import SlurmPort
from roostd.state import DaemonState

_INTERVAL_S = 1.0
# For more than one node slurmctld sends all of them, and sinfo reads all.
_INTERVAL_S_PER_NODE = 1e-3
_MOST_NODES = 50  # that are asked for at once; a cluster with more closed nodes is being repaired


class NodeReturns:
    """See the module.

    Args:
        slurm: the cluster.
        state: has the engine, which knows the waiting jobs.
        nodes: as the last reading showed them.
        poll_nodes: has the nodes read now.
    """

    def __init__(
        self,
        slurm: SlurmPort,
        state: DaemonState,
        nodes: SeenNodes,
        poll_nodes: Callable[[], None],
    ) -> None:
        self._slurm, self._state, self._nodes, self._poll_nodes = slurm, state, nodes, poll_nodes
        # The last answers. A reading may show a node as closed that sinfo shows as idle, such as
        # one that has not registered; it is not repeated while the answer stays the same.
        self._answered: dict[NodeName, str] = {}

    async def run(self) -> None:
        """Ask until cancelled."""
        asked_count = 0
        while True:
            await asyncio.sleep(self._interval_s(asked_count))
            asked_count = await self.ask()

    def awaited(self) -> list[NodeName]:
        """Return the closed nodes in partitions in which jobs wait that Roost places."""
        left = dict(self._nodes.closed)
        if self._state.slurm_fault or not left:
            return []
        engine, names = self._state.engine, list[NodeName]()
        seen = set[str]()
        for job_id in engine.waiting():  # thousands, but nearly always of a few partitions
            spec = engine.record(job_id).spec
            if spec.partition in seen or not spec.binding:
                continue
            seen.add(spec.partition)
            found = [name for name, partitions in left.items() if spec.partition in partitions]
            names += found
            for name in found:
                del left[name]
            if not left:
                break
        return sorted(names)[:_MOST_NODES]

    async def ask(self) -> int:
        """Ask for the states of the awaited nodes; have the nodes read if one takes jobs again.

        Returns:
            How many nodes were asked for.
        """
        names = self.awaited()
        try:
            states = await self._slurm.node_states(names) if names else {}
        except SlurmError:
            return len(names)  # the next poll reports it
        known, self._answered = self._answered, dict(states)
        if any(known.get(name) != state and takes_jobs(state) for name, state in states.items()):
            self._poll_nodes()
        return len(names)

    def _interval_s(self, asked_count: int) -> float:
        if asked_count <= 1:
            return _INTERVAL_S
        return max(_INTERVAL_S, len(self._nodes.nodes) * _INTERVAL_S_PER_NODE)
