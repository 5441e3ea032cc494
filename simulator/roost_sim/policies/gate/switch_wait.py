"""Slurm's own delay scheduling: `--switches=1` waits some time for one leaf switch.

Source: sbatch's manual page, --switches, and SchedulerParameters=max_switch_wait, 300 s unless
configured. The clock starts when Slurm first finds room for the job, not when it is submitted.
"""

from roost_engine.domain.model import JobId
from roost_engine.domain.tier import Tier
from roost_engine.policies import Allow, Defer, GateVerdict, Offer, WaitEnded

MAX_SWITCH_WAIT_S = 300.0


class SwitchWait:
    """Takes an offer within one rack, any other when it has waited. See policies.GatePolicy.

    Slurm makes a job wait that no leaf switch could ever hold, too; so does this.

    Args:
        max_wait_s: how long.
    """

    def __init__(self, max_wait_s: float = MAX_SWITCH_WAIT_S) -> None:
        self._max_wait_s = max_wait_s
        self._since_s: dict[JobId, float] = {}

    def decide(self, offer: Offer) -> GateVerdict:
        """See GatePolicy."""
        until_s = self._since_s.setdefault(offer.job.job_id, offer.at_s) + self._max_wait_s
        if offer.tier <= Tier.RACK or offer.at_s >= until_s:
            return Allow()
        return Defer(until_s=until_s, reason="waits for nodes of one leaf switch")

    def note(self, outcome: WaitEnded) -> None:
        """See GatePolicy."""
        self._since_s.pop(outcome.job.job_id, None)
