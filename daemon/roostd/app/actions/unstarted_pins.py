"""Pins on which Slurm did not start the job in time: the job avoids these nodes for a while.

slurmctld may take GPUs of an idle node for taken, seen with 22.05 after a restart with jobs in
flight. It starts no job there that asks for these GPUs, and says no more than "Resources".
"""

from dataclasses import dataclass

from roost_engine.domain.actions import Place
from roost_engine.domain.model import JobId
from roostd.slurm.rules.held_back import NO_SUCH_GPUS
from roostd.state import DaemonState

_AVOIDED_S = 60.0


@dataclass(frozen=True, slots=True)
class _Pin:
    action: Place
    at_s: float


class UnstartedPins:
    """Fills `DaemonState.avoided_nodes`.

    Args:
        state: of the daemon.
    """

    def __init__(self, state: DaemonState) -> None:
        self._state = state
        self._pins: dict[JobId, _Pin] = {}

    def note_pin(self, action: Place) -> None:
        """Note that Slurm has taken a pin by which it can start the job at once."""
        self._pins[action.job_id] = _Pin(action, self._state.clock.now_s())

    def note_unpin(self, job_id: JobId, reason: str = "") -> None:
        """Have a job avoid the nodes of a pin that is taken back because it did not start.

        Unless it had no other place when it was placed there: then it is tried there again.

        Args:
            job_id: the job's.
            reason: why it waited, by Slurm's word.
        """
        pin, now_s = self._pins.pop(job_id, None), self._state.clock.now_s()
        # The engine's time runs from its decision on; a pin takes a part of it.
        if pin is None:
            return
        is_early = now_s - pin.at_s < self._state.config.engine.start_timeout_s / 2
        if is_early and reason != NO_SUCH_GPUS:
            return
        nodes = frozenset(pin.action.placement.nodes)
        others = (other.nodes for other in pin.action.decision.get().candidates)
        if any(nodes.isdisjoint(other) for other in others):
            avoided = self._state.avoided_at(now_s).get(job_id, frozenset())
            self._state.avoided_nodes[job_id] = avoided | nodes, now_s + _AVOIDED_S

    def forget(self, job_id: JobId) -> None:
        """Drop what is known of a job that has started or ended."""
        self._pins.pop(job_id, None)
        self._state.avoided_nodes.pop(job_id, None)
