"""Slurm's own delay scheduling: `--switches=1` waits some time for one leaf switch.

Source: sbatch's manual page, --switches, and SchedulerParameters=max_switch_wait, 300 s unless
configured. The wait begins when Slurm first finds capacity for the job, not at its submission.
"""

from roost_engine.domain.model import JobId
from roost_engine.domain.tier import Tier
from roost_engine.policies.protocols import Allow, Defer, GateVerdict, Offer, WaitEnded

MAX_SWITCH_WAIT_S = 300.0


class SwitchWait:
    """Accepts an offer within one rack, any other after the wait. See policies.GatePolicy.

    A job that no leaf switch could ever hold waits too, as in Slurm.

    """

    def __init__(self) -> None:
        self._since_s: dict[JobId, float] = {}

    def decide(self, offer: Offer) -> GateVerdict:
        """See GatePolicy."""
        until_s = self._since_s.setdefault(offer.job.job_id, offer.at_s) + MAX_SWITCH_WAIT_S
        if offer.tier <= Tier.RACK or offer.at_s >= until_s:
            return Allow()
        return Defer(until_s=until_s, reason="waits for nodes of one leaf switch")

    def note(self, outcome: WaitEnded) -> None:
        """See GatePolicy."""
        self._since_s.pop(outcome.job.job_id, None)
