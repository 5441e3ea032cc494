"""What the daemon is doing right now: written by its tasks, read by its gRPC services."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from roost_engine.domain.actions import Place
from roost_engine.domain.model import JobId, NodeName
from roost_engine.engine import Engine
from roost_engine.job_record import JobRecord, KnownJob
from roostd.config.config import Config
from roostd.ops.clock import Clock
from roostd.slurm.comment import JobComment
from roostd.telemetry.board import ProbeBoard


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a job is, and the partition that it was submitted to."""

    user_id: int
    partition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftJob:
    """A job that Roost does not place, and why.

    Attributes:
        is_blocked: held, depending or beyond its array's limit: Roost places it once it may go.
    """

    reason: str
    is_blocked: bool


@dataclass(slots=True, kw_only=True)
class DaemonState:
    """Shared by the tasks of one event loop; nobody keeps a part of it across an await.

    Attributes:
        version: of the daemon.
        clock: engine time.
        config: what holds now; a reload replaces it.
        engine: what decides now; a reload and a long run replace it.
        board: what the probes say.
        started_s: engine time at which this daemon started.
        policy_model: what the configuration asked for, or "heuristic" when none was loaded.
        policy_fault: why the heuristic answers instead of the model; empty when it does not.
        cluster: its name.
        slurm_version: empty until Slurm has answered.
        slurm_fault: empty while Slurm answers.
        journal_fault: empty while the journal is written.
        node_states: Slurm's word on each node, in full: "mixed+drain".
        job_ids: the JobId of each of Slurm's numeric ids: they differ for tasks of arrays.
        owners: of every job in Slurm's queue, and of ended ones that the engine remembers.
        left: jobs that ask for GPUs and that Roost does not place; also while they run.
        left_reasons: why, of every waiting job that Roost does not place, CPU jobs too.
        rests: engine time before which each requeued job that waits must not start.
        comments: what users tell of jobs by their comments, of those who do.
        earlier_places: what was decided before the present engine was born, by the journal.
        policy_failures: the last fault of each slot whose policy has failed in the present engine.
    """

    version: str
    clock: Clock
    config: Config
    engine: Engine
    board: ProbeBoard
    started_s: float = 0.0
    policy_model: str = "heuristic"
    policy_fault: str = ""
    cluster: str = ""
    slurm_version: str = ""
    slurm_fault: str = "Slurm was not asked yet"
    journal_fault: str = ""
    node_states: dict[NodeName, str] = field(default_factory=dict)
    job_ids: dict[int, JobId] = field(default_factory=dict)
    owners: dict[JobId, Owner] = field(default_factory=dict)
    left: dict[JobId, LeftJob] = field(default_factory=dict)
    left_reasons: Mapping[JobId, str] = field(default_factory=dict)
    rests: Mapping[JobId, float] = field(default_factory=dict)
    comments: dict[JobId, JobComment] = field(default_factory=dict)
    earlier_places: dict[JobId, Place] = field(default_factory=dict)
    policy_failures: dict[str, str] = field(default_factory=dict)

    def place(self, job_id: JobId, record: KnownJob) -> Place | None:
        """What was decided for a job, by this engine or one before it."""
        if isinstance(record, JobRecord) and record.placement and record.decision:
            return Place(job_id=job_id, placement=record.placement, decision=record.decision)
        return self.earlier_places.get(job_id)
