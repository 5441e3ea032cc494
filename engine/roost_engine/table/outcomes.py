"""The outcomes that gate and predictors learn from: how waits ended, and how jobs ran."""

from collections.abc import Mapping, Sequence

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.events import JobStarted
from roost_engine.domain.model import UNKNOWN_USER, JobId, NodeShare
from roost_engine.domain.tier import Tier
from roost_engine.job_record import WAITS, JobRecord, JobState, Pin
from roost_engine.policies.protocols import RunEnded, WaitEnded
from roost_engine.policies.slots import GateSlot, PredictorSlot

_PLACING = JobState.PLACING  # an enum looks its members up by a call


class Outcomes:
    """Reports to the gate and to the predictors.

    Args:
        gate: learns from waits.
        predictors: learn from waits and runs; None: there are none.
        jobs: the jobs under Roost; the caller changes it.
        cluster: where they run.

    Attributes:
        counts_held: whether note_wait(), note_held() and note_run() must be called.
        counts_waits: whether note_unplaced() must be called.
    """

    def __init__(
        self,
        gate: GateSlot,
        predictors: PredictorSlot | None,
        jobs: Mapping[JobId, JobRecord],
        cluster: Cluster,
    ) -> None:
        self._gate, self._predictors = gate, predictors
        self._jobs, self._cluster = jobs, cluster
        self.counts_held = predictors is not None
        self.counts_waits = predictors is not None or not gate.is_open

    def note_wait(self, record: JobRecord, at_s: float) -> None:
        """Report that a job waits from now on: a new one, or one that ran and was stopped."""
        if self._predictors is not None:
            self._predictors.wait_began(record, at_s)

    def note_start(self, record: JobRecord, event: JobStarted) -> None:
        """Report the outcome of a wait: the tier placed by the engine, or none.

        Slurm starts a job by itself where it was pinned, also while the engine moves it elsewhere.
        """
        state = record.state
        met: Pin | None = None
        if state is _PLACING and event.shares is self._cluster.shares(record.job_id):
            pass  # the very shares that are held for its placement
        elif state in WAITS and record.is_binding:
            met = record.pin_met_by(event.shares)
        if met is not None:
            record.placement, record.decision = met
            self._note_wait_end(record, met[0].tier, event.at_s)
        elif state is _PLACING:
            assert record.placement is not None
            if not self.counts_waits:
                return
            self._note_wait_end(record, record.placement.tier, event.at_s)
        else:
            self.note_unplaced(record, event.at_s)

    def note_unplaced(self, record: JobRecord, at_s: float) -> None:
        """Report a wait that ended without a placement of the engine."""
        if record.state in (JobState.WAITING, JobState.CLEARING):
            self._note_wait_end(record, None, at_s)

    def _note_wait_end(self, record: JobRecord, tier: Tier | None, at_s: float) -> None:
        if not self.counts_waits:
            return
        waited_s = max(0.0, at_s - record.queued_s)
        outcome = WaitEnded(job=record, waited_s=waited_s, tier=tier, at_s=at_s)
        if self._predictors is not None:
            self._predictors.wait_ended(outcome)
        self._gate.note(outcome)

    def note_held(self, job_id: JobId, shares: Sequence[NodeShare], at_s: float) -> None:
        """Report the GPUs of a job that runs, also of one that Slurm started by itself."""
        if self._predictors is not None:
            record = self._jobs.get(job_id)
            user_id = UNKNOWN_USER if record is None else record.spec.user_id
            gpu_count = sum(len(share.gpu_indices) for share in shares)
            self._predictors.holds(job_id, user_id, gpu_count, at_s)

    def note_run(self, record: JobRecord, at_s: float) -> None:
        """Report the end of a run."""
        if self._predictors is not None and record.started_s is not None:
            self._predictors.run_ended(RunEnded(job=record, cluster=self._cluster, at_s=at_s))
