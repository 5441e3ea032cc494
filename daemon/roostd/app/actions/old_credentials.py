"""The old credentials of requeued jobs: how long slurmds may have them, and a start must wait."""

from math import inf

from roost_engine.domain.actions import Place
from roost_engine.domain.model import JobId, NodeName
from roost_engine.job_record import JobState, KnownJob
from roostd.state import DaemonState

# Before slurmd starts a job that it killed earlier, it must purge the job's old credential. It
# purges at the end of each job, and otherwise at most once in two seconds. With PrologFlags=Alloc a
# start takes two calls; when the purge falls between them, the second call waits 20 s for the first
# and the start fails: "REQUEST_LAUNCH_PROLOG notification failed" (measured on 22.05). After a
# pause of _SETTLE_S the first call purges. Two minutes after the kill the credential has expired.
_SETTLE_S = 2.5
_CREDENTIAL_S = 121.0


class OldCredentials:
    """Remembers where jobs ran and when jobs last started or ended on each node."""

    def __init__(self, state: DaemonState) -> None:
        self._state = state
        self._touched_s: dict[NodeName, float] = {}  # when a job last started or ended there
        self._ran_on: dict[JobId, set[NodeName]] = {}  # since this daemon began

    def note(self, job_id: JobId, known: KnownJob) -> None:
        """Note that a job has started or ended just now."""
        nodes = {share.node for share in known.shares}
        self._touched_s |= dict.fromkeys(nodes, self._state.clock.now_s())
        if known.state is JobState.ENDED:
            self._ran_on.pop(job_id, None)
        elif nodes:
            self._ran_on[job_id] = self._ran_on.get(job_id, set()) | nodes

    def settle_delay_s(self, action: Place) -> float:
        """Return how long a lately requeued job must wait for slurmds that have its old credential.

        Zero for other jobs, and on nodes where it did not run. See _SETTLE_S for the reason.
        """
        now_s = self._state.clock.now_s()
        settle_until_s = self._state.settle_until_s.get(action.job_id)
        if settle_until_s is None or now_s > settle_until_s + _CREDENTIAL_S:
            return 0.0
        nodes = action.placement.nodes
        had_it = self._ran_on.get(action.job_id, nodes)  # unknown after a restart: maybe all
        touched_s = [self._touched_s.get(node, -inf) for node in nodes if node in had_it]
        return max(max(touched_s, default=-inf) + _SETTLE_S - now_s, 0.0)
