"""The daemon's access to Slurm: a Protocol, what it tells, and why it may refuse.

roostd.slurm.slurm_cli implements it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from roost_engine.domain.errors import SlurmError
from roost_engine.domain.model import JobId, NodeName, NodeSpec, Placement
from roost_slurm.text.commands import Argv
from roost_slurm.text.scontrol import JobDetail, Settings
from roost_slurm.text.shadow_question import FirstStart
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.versions import SlurmVersion
from roostd.slurm.rules.site_rules import SiteRules

HELD_STATE = "held"  # of a pending job that starts only once it is released


class JobNotWaiting(SlurmError):
    """A job that should be placed no longer waits; `state` is its state instead."""

    def __init__(self, job_id: JobId, state: str) -> None:
        super().__init__(f"job {job_id} is {state}, not waiting")
        self.job_id, self.state = job_id, state

    @property
    def is_held(self) -> bool:
        """Whether the job is pending all the same, and starts only once it is released."""
        return self.state == HELD_STATE


class NodeClosed(SlurmError):
    """A chosen node takes no job any more; `state` is its state, "idle+drain"."""

    def __init__(self, name: str, state: str) -> None:
        super().__init__(f"node {name} is {state}")
        self.name, self.state = name, state


class NotDue(SlurmError):
    """The begin time that a job's user asked for has not come, by the wall clock as it is now."""

    def __init__(self, job_id: JobId, left_s: float) -> None:
        super().__init__(f"job {job_id} is to begin in {left_s:.0f} s")
        self.job_id, self.left_s = job_id, left_s


class QuestionUnanswered(SlurmError):
    """Slurm did not judge a shadow question; `stderr` is what sbatch printed instead."""

    def __init__(self, stderr: str) -> None:
        super().__init__(f"a shadow question got no answer: {stderr.strip()[:300]}")
        self.stderr = stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """A node of Slurm's.

    Attributes:
        spec: what the engine needs of it.
        state: in full: "idle", "mixed+drain".
        reason: Slurm's Reason, for instance why it is drained; empty without one.
        socket_count: of its CPUs.
        is_typed: whether GPU i has the type gi: without it a pin makes Slurm hold the job.
        used_gpus: indices of the GPUs that slurmctld counts as used.
        is_registering: whether slurmctld has just started, and awaits the node.
    """

    spec: NodeSpec
    state: str
    reason: str
    cpu_allocated_count: int
    memory_allocated_bytes: int
    socket_count: int = 1
    is_typed: bool = True
    used_gpus: tuple[int, ...] = ()
    is_registering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """The queue at one moment.

    Attributes:
        at_epoch_s: when it was requested, on the wall clock; earlier changes are in it.
        details: by record number; some may be missing until a later snapshot.
        malformed_count: lines that were no records.
    """

    at_epoch_s: float
    jobs: tuple[QueuedJob, ...]
    details: Mapping[int, JobDetail] = field(default_factory=dict)
    malformed_count: int = 0

    def is_longer_than(self, job_count: int) -> bool:
        """Return whether it has more jobs: each task of an array's record is one."""
        records = len(self.jobs)
        return records > job_count or sum(len(job.task_ids) or 1 for job in self.jobs) > job_count


class SlurmPort(Protocol):
    """The daemon's requests to Slurm. Every method may raise SlurmTimeout or SlurmRefused."""

    async def version(self) -> SlurmVersion:
        """Return the release."""

    async def settings(self) -> Settings:
        """Return the present settings of slurm.conf."""

    async def rules(self) -> SiteRules:
        """Return the site's own rules; a part that cannot be read is empty, or as it was."""

    async def ping(self) -> None:
        """Return if slurmctld answers.

        Raises:
            SlurmError: it does not.
        """

    async def nodes(self) -> tuple[SlurmNode, ...]:
        """Return every node that has GPUs."""

    async def node_states(self, names: Sequence[NodeName]) -> Mapping[NodeName, str]:
        """Return the states of some nodes, in the words of sinfo: "idle", "drained*"."""

    def forget_limits(self) -> None:
        """Read the limits of waiting arrays again with the next queue: a user may change them."""

    async def queue(self) -> QueueSnapshot:
        """Return the queue, as of now or later; calls at the same time share one dump."""

    async def pin(
        self,
        job_id: JobId,
        placement: Placement,
        *,
        lease_s: int = 0,
        is_eligible: bool = False,
        beside: Sequence[JobId] = (),
    ) -> None:
        """Make Slurm start a waiting job on exactly these GPUs, as soon as they are free.

        In one call: the job is either unchanged or asks for the placement, also when this process
        dies meanwhile. An eligible job on several nodes takes two calls; between them it is leased.

        Args:
            job_id: the waiting job.
            placement: GPUs that are free now, or for which the job is to wait.
            lease_s: length of that lease.
            is_eligible: whether the job waits by a standing pin already: its begin time, and with
                it its age, stays as it is.
            beside: the jobs that hold other seats of these GPUs. Their comments and QoS, and those
                of the waiting job, must be as in the last dump: a user may have opted out since.

        Raises:
            JobNotWaiting: the job is gone, held or no longer pending.
            NotDue: its user asked for a later begin time; the job is unchanged.
            NodeClosed: a node was drained or failed since the last poll; the job is unchanged.
            SlurmRefused: Slurm refuses; the job is unchanged.
            SlurmTimeout: Slurm does not answer, and the job is unchanged.
        """

    async def unpin(self, job_id: JobId, lease_s: int) -> str:
        """Take back a pin on which Slurm has not started the job, and lease the job again.

        Returns:
            Slurm's reason for not starting the job.

        Raises:
            JobNotWaiting: the job has started after all, or is gone.
        """

    async def requeue(self, job_id: JobId) -> None:
        """Ask Slurm to stop a running job, which then waits again. Returns before it has stopped.

        Even if this process dies, Slurm starts the job again about two minutes later, unless a
        lease or a pin prevents it.

        Raises:
            SlurmRefused: Slurm refuses, or the job is not under Roost; the job continues to run.
            SlurmTimeout: Slurm does not answer, and the job still runs.
        """

    async def renew(self, job_ids: Sequence[JobId], lease_s: int) -> None:
        """Lease these jobs for lease_s from now. Jobs that are gone are skipped.

        Jobs whose users asked for a later begin time are skipped too: it is never shortened. So are
        jobs whose users let them start at once.
        """

    async def let_start(self, job_ids: Sequence[JobId]) -> None:
        """Let Slurm start leased jobs on GPUs of its choice; `renew` leases those that still wait.

        Jobs whose users asked for a later begin time are skipped.
        """

    async def release(self, job_ids: Sequence[JobId]) -> None:
        """Let plain Slurm start these jobs; a user's own later begin time is kept."""

    async def advise(self, job_id: JobId, text: str) -> None:
        """Write advice into the job's admin comment, after the lease stamp."""

    async def foretell(self, job_id: JobId, text: str) -> None:
        """Write when a job is expected to start into its admin comment, beside everything else."""

    async def first_start(self, question: Argv) -> FirstStart | None:
        """Ask when plain Slurm could start a job; see roost_slurm.text.shadow_question.

        Returns:
            When and where; None where Slurm would take no such job, or knows no start.

        Raises:
            QuestionUnanswered: Slurm did not judge the question.
        """

    async def announce(self, reasons: Mapping[JobId, str]) -> None:
        """Write why leased jobs wait into their admin comments, one call for each reason.

        Jobs whose comment has the reason already cost no call. Tasks that share an array's record
        share its comment, which gets the reason of one of them.

        Raises:
            SlurmRefused: one of the calls was refused; the others were made, or most of them.
            SlurmTimeout: Slurm did not answer in time.
        """
