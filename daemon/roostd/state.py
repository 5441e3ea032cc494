"""The daemon's present state: written by its tasks, read by its gRPC services."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from roost_engine.domain.actions import Place
from roost_engine.domain.events import WaitSoFar
from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_engine.engine import Engine
from roost_engine.forecast.forecast import Forecast
from roost_engine.job_record import JobRecord, KnownJob
from roost_engine.policies.canary import Slot
from roost_formats.journal.past_jobs import PastJob
from roost_formats.journal.shadow import ShadowChoice
from roostd.config.config import Config, Mode
from roostd.ops.clock import Clock
from roostd.ops.promotions import Promotions
from roostd.slurm.comment import JobComment
from roostd.slurm.job_facts import Owner as Owner
from roostd.telemetry.activity_speed import ActivityTracker
from roostd.telemetry.board import ProbeBoard
from roostd.telemetry.foreign_memory import Foreign
from roostd.telemetry.gpu_memory import GpuMemoryPeaks
from roostd.telemetry.progress import ProgressTracker
from roostd.telemetry.speed_source import SpeedSource
from roostd.telemetry.waste import WasteTally

_REMEMBERED_COUNT = 20_000  # choices of the policy in shadow
SLOW_ANSWER_S = 6.0  # Slurm's own commands give up on a lost slurmctld after about ten


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmanagedJob:
    """A job that Roost does not place, and why.

    Attributes:
        reason: why, for a human.
        is_blocked: the job is held, depends on another job or is beyond its array's limit: Roost
            places it once that ends.
    """

    reason: str
    is_blocked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftQueue:
    """A job that Roost left to Slurm, and that left Slurm's queue without being seen to run.

    Attributes:
        reason: why Roost did not place it.
        owner: of the job; None: not known.
        submit_s, left_s: engine time of its submission, and of the poll that missed it.
    """

    reason: str
    owner: Owner | None
    submit_s: float
    left_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRun:
    """When the controller's hooks reported a job's start and end; engine time, None: not seen."""

    started_s: float | None = None
    ended_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondSlurm:
    """What shadow questions have found of waits under Roost, since the daemon began.

    Attributes:
        longest_s: the longest time that a job has waited, or still waits, after plain Slurm could
            have started it.
        job_id: that job; None where none has waited so.
        beyond_cap_count: waiting jobs for which that is longer than the cap by now.
    """

    longest_s: float = 0.0
    job_id: JobId | None = None
    beyond_cap_count: int = 0


@dataclass(slots=True, kw_only=True)
class ShadowFigures:
    """What the policy in shadow has chosen so far.

    Attributes:
        decision_count: placements of the active policies.
        elsewhere_count: those that the shadow would have made on other GPUs.
        waiting_count: those that the shadow would not have made yet.
        gain_sum_s, gain_count: expected completion, shadow less active, of jobs that both placed.
        backlog: events that the shadow has not seen yet.
        fault: why it stands still; empty while it does not.
        choices: the newest of each job.
    """

    decision_count: int = 0
    elsewhere_count: int = 0
    waiting_count: int = 0
    gain_sum_s: float = 0.0
    gain_count: int = 0
    backlog: int = 0
    fault: str = ""
    choices: dict[JobId, ShadowChoice] = field(default_factory=dict)

    def add(self, choice: ShadowChoice) -> None:
        """Count a choice."""
        self.decision_count += 1
        self.waiting_count += choice.shadow is None
        self.elsewhere_count += choice.shadow is not None and choice.differs
        if (gain_s := choice.expected_gain_s) is not None:
            self.gain_sum_s += gain_s
            self.gain_count += 1
        self.choices.pop(choice.job_id, None)
        self.choices[choice.job_id] = choice
        if len(self.choices) > _REMEMBERED_COUNT:
            self.choices.pop(next(iter(self.choices)))


@dataclass(slots=True, kw_only=True)
class DaemonState:
    """What the tasks of the daemon's event loop share; no task keeps a part of it across an await.

    Attributes:
        version: of the daemon.
        clock: engine time.
        config: the configuration in effect; a reload replaces it.
        engine: the engine in service; a reload and a long run of the journal replace it.
        board: the newest reports of the probes.
        started_s: engine time at which this daemon started.
        policy_model: the model that the configuration names, or "heuristic" when none was loaded.
        policy_fault: why the heuristic answers instead of the model; empty when it does not.
        run_times_fault: why the history answers instead of the model of run times; empty when it
            does not.
        cluster: Slurm's ClusterName.
        slurm_version: empty until Slurm has answered.
        can_pin_again: whether this release of Slurm accepts a new pin for a job pinned before.
        slurm_fault: empty while Slurm answers.
        journal_fault: empty while the journal is written.
        node_states: Slurm's state of each node, in full: "mixed+drain".
        registered_epoch_s: wall clock just before the last reading of Slurm's nodes; 0: it showed
            that slurmctld has just started and awaits most of them; see SeenNodes.
        untyped_nodes: the partitions of each node whose GPUs do not have types by index.
        stranded_gpus: how many GPUs of each node Slurm counts as used though no job has them.
        hidden_nodes: by partition, nodes that Slurm wakes for its jobs and shows nowhere.
        cpu_sharing: partitions whose jobs Slurm may start on CPUs that other jobs have.
        job_ids: the JobId of each of Slurm's numeric ids: the two differ for tasks of arrays.
        owners: of every job in Slurm's queue, and of ended jobs that the engine remembers.
        unmanaged: jobs that ask for GPUs and that Roost does not place; also while they run.
        unmanaged_reasons: why, for every waiting job that Roost does not place, CPU jobs too.
        left_queue: the last jobs with GPUs that were left to Slurm and never seen to run; as many
            as the engine remembers of the ended jobs that it knew.
        reported_runs: the last jobs that the controller's hooks reported, of any kind.
        owner_fault: why another roostd steers the cluster; empty: none does.
        held_back_count: waiting jobs that one of Slurm's own rules holds back.
        pinned_in_slurm: waiting jobs that have the request of a pin, by the last poll: also of one
            that this daemon does not remember, since the job ran or was held meanwhile.
        settle_until_s: engine time before which each requeued job that waits must not start.
        avoided_nodes: by job, nodes where Slurm has not started it in time, and engine time until
            which it is not placed there.
        unsure_nodes: the nodes of which it is not known which GPUs reservations close now.
        comments: what users state about their jobs in `--comment`, for jobs with such a comment.
        earlier_decisions: the placements that engines before the present one decided, from the
            journal.
        earlier_waits: of jobs that the present engine has no event of yet: from the journal,
            at the start, or from an engine before the last one.
        earlier_records: of such jobs, from the last engine before the present one.
        forecast: when jobs are expected to start and end; None: there is none yet.
        forecast_fault: why there is no newer one; empty when the last one went well.
        policy_failures: the last fault of each slot whose policy has ever failed.
        share_count: users that have a part of Slurm's tree of shares; 0: there is no tree.
        beyond_slurm: waits that plain Slurm would not have; None: Slurm is not asked.
        promotions: the policies that were promoted, evaluated and taken out.
        promotions_fault: why what was promoted before is not known; empty where it is.
        promotion_faults: by slot, why its promoted policy does not decide.
        shadow: what the policy in shadow has chosen; None: there is none.
        waste: GPU-seconds that brought nothing, by day and user.
        foreign: the GPUs whose memory processes of no Slurm job hold, by node and index.
        progress: what was learned from the progress that jobs report.
        activity: what was learned from the activity of GPUs, of jobs that report no progress.
        gpu_memory: what earlier runs of kinds of jobs used; learned where jobs may share GPUs.
        first_shares: what each job got at the start of its present or last run: Slurm takes back
            the nodes of a job that completes one by one.
        release_reasons: why Roost released each of these waiting jobs to plain Slurm.
        watched_start_count: jobs that Slurm started while Roost only watched.
        watched_elsewhere_count: those of them that got other GPUs than Roost had chosen.
        slurm_asked_s: engine time at which the poll under way began; None: there is none.
        slurm_answered_s: engine time of Slurm's last answer; None: it has never answered.
        ask_slurm: asks Slurm now, and returns whether it answered or failed within seconds.
        find_past: reads a job that has ended, and how it was placed last, from the journal.
    """

    version: str
    clock: Clock
    config: Config
    engine: Engine
    board: ProbeBoard
    started_s: float = 0.0
    policy_model: str = "heuristic"
    policy_fault: str = ""
    run_times_fault: str = ""
    cluster: str = ""
    slurm_version: str = ""
    can_pin_again: bool = False
    slurm_fault: str = "Slurm was not asked yet"
    journal_fault: str = ""
    node_states: dict[NodeName, str] = field(default_factory=dict)
    registered_epoch_s: int = 0
    untyped_nodes: Mapping[NodeName, tuple[str, ...]] = field(default_factory=dict)
    stranded_gpus: Mapping[NodeName, int] = field(default_factory=dict)
    hidden_nodes: Mapping[str, frozenset[NodeName]] = field(default_factory=dict)
    cpu_sharing: frozenset[str] = frozenset()
    job_ids: dict[int, JobId] = field(default_factory=dict)
    owners: dict[JobId, Owner] = field(default_factory=dict)
    unmanaged: dict[JobId, UnmanagedJob] = field(default_factory=dict)
    unmanaged_reasons: Mapping[JobId, str] = field(default_factory=dict)
    left_queue: dict[JobId, LeftQueue] = field(default_factory=dict)
    reported_runs: dict[JobId, ReportedRun] = field(default_factory=dict)
    owner_fault: str = ""
    held_back_count: int = 0
    pinned_in_slurm: frozenset[JobId] = frozenset()
    settle_until_s: Mapping[JobId, float] = field(default_factory=dict)
    avoided_nodes: dict[JobId, tuple[frozenset[NodeName], float]] = field(default_factory=dict)
    unsure_nodes: frozenset[NodeName] = frozenset()
    comments: dict[JobId, JobComment] = field(default_factory=dict)
    earlier_decisions: dict[JobId, Place] = field(default_factory=dict)
    earlier_waits: dict[JobId, WaitSoFar] = field(default_factory=dict)
    earlier_records: dict[JobId, JobRecord] = field(default_factory=dict)
    forecast: Forecast | None = None
    forecast_fault: str = ""
    policy_failures: dict[str, str] = field(default_factory=dict)
    share_count: int = 0
    beyond_slurm: BeyondSlurm | None = None
    promotions: Promotions = field(default_factory=Promotions)
    promotions_fault: str = ""
    promotion_faults: dict[Slot, str] = field(default_factory=dict)
    shadow: ShadowFigures | None = None
    waste: WasteTally = field(default_factory=WasteTally)
    foreign: dict[tuple[NodeName, int], Foreign] = field(default_factory=dict)
    progress: ProgressTracker = field(default_factory=ProgressTracker)
    activity: ActivityTracker = field(default_factory=ActivityTracker)
    gpu_memory: GpuMemoryPeaks = field(default_factory=GpuMemoryPeaks)
    first_shares: dict[JobId, tuple[NodeShare, ...]] = field(default_factory=dict)
    release_reasons: dict[JobId, str] = field(default_factory=dict)
    watched_start_count: int = 0
    watched_elsewhere_count: int = 0
    slurm_asked_s: float | None = None
    slurm_answered_s: float | None = None
    ask_slurm: Callable[[], Awaitable[bool]] | None = None
    find_past: Callable[[JobId], Awaitable[tuple[PastJob, Place | None] | None]] | None = None

    def user_of(self, job_id: JobId) -> int | None:
        """Return the user of a job; None: there is no such job, or Slurm has not named its user."""
        gone, record = self.left_queue.get(job_id), self.engine.managed(job_id)
        owner = self.owners.get(job_id) or (None if gone is None else gone.owner)
        if owner is not None:
            return owner.user_id
        return None if record is None else record.spec.user_id

    def speed_sources(self) -> tuple[SpeedSource, ...]:
        """Return what compares speeds with predictions, the most reliable first."""
        if self.config.telemetry.activity_speed:
            return self.progress, self.activity
        return (self.progress,)

    def job_of(self, slurm_job_id: int) -> JobId:
        """Return the JobId of one of Slurm's numeric ids."""
        return self.job_ids.get(slurm_job_id, JobId(str(slurm_job_id)))

    def slurm_fault_now(self) -> str:
        """Return why Slurm does not answer, also where it lets a question wait; empty: it does."""
        if self.slurm_fault or self.slurm_asked_s is None:
            return self.slurm_fault
        waits_s = self.clock.now_s() - self.slurm_asked_s
        return f"no answer for {waits_s:.0f} s" if waits_s > SLOW_ANSWER_S else ""

    def stranded_fault(self) -> str:
        """Return what Slurm does not give to jobs, and the cure; empty: nothing."""
        count, names = sum(self.stranded_gpus.values()), sorted(self.stranded_gpus)
        if not names:
            return ""
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return (
            f"slurmctld counts GPUs as used that no job has: {count} of"
            f" {', '.join(names[:3])}{more}; cure: scontrol reconfigure"
        )

    def untyped_partitions(self) -> frozenset[str]:
        """Return the enforced partitions with nodes on which no job can be pinned to its GPUs."""
        named = {name for names in self.untyped_nodes.values() for name in names}
        return frozenset(filter(self.is_enforced, named))

    def partly_given_out(self) -> frozenset[str]:
        """Return the partitions where Slurm has nodes or CPUs for jobs that Roost does not use."""
        partly = self.config.listed_nodes(), self.hidden_nodes, self.cpu_sharing
        return self.untyped_partitions().union(*partly)

    def is_enforced(self, partition: str) -> bool:
        """Return whether a partition's jobs start where Roost chooses."""
        return self.config.mode_of(partition) is Mode.ENFORCE

    def avoided_at(self, at_s: float) -> Mapping[JobId, frozenset[NodeName]]:
        """Return the nodes on which waiting jobs are not placed for now; drop those of before."""
        avoided = self.avoided_nodes
        for job_id in [job_id for job_id, (_, until_s) in avoided.items() if until_s <= at_s]:
            del avoided[job_id]
        return {job_id: nodes for job_id, (nodes, _) in avoided.items()}

    def note_start(self, job_id: JobId, shares: tuple[NodeShare, ...], *, resumes: bool) -> bool:
        """Store what a job got at the start of its run.

        Args:
            job_id: the job.
            shares: what it holds now.
            resumes: whether it held GPUs before: some of them may have been taken back.

        Returns:
            Whether a run began; False: the job completes, and holds a part of what it got.
        """
        if resumes and _is_part(shares, self.first_shares.get(job_id, ())):
            return False
        self.first_shares[job_id] = shares
        return True

    def link_scores(self, shares: Iterable[NodeShare]) -> tuple[int, int] | None:
        """Return the link score of GPUs, and the best of as many on nodes of their kinds.

        Both are sums over the nodes. None: a node is not known.
        """
        cluster, total, best = self.engine.cluster, 0, 0
        for share in shares:
            row = cluster.index_of.get(share.node)
            mask = sum(1 << gpu for gpu in share.gpu_indices)
            if row is None or cluster.specs[row] is None or mask > cluster.table(row).full_mask:
                return None
            total += int(cluster.table(row).set_scores[mask])
            best += cluster.table(row).best_by_size[len(share.gpu_indices)]
        return total, best

    def place(self, job_id: JobId, record: KnownJob) -> Place | None:
        """Return what was decided for a job, by this engine or by an earlier one."""
        if isinstance(record, JobRecord) and record.placement and record.decision:
            return Place(job_id=job_id, placement=record.placement, decision=record.decision)
        return self.earlier_decisions.get(job_id)


def _is_part(shares: Iterable[NodeShare], whole: Iterable[NodeShare]) -> bool:
    """Return whether shares hold no GPU that is not in others."""
    held = {share.node: frozenset(share.gpu_indices) for share in whole}
    return all(held.get(one.node, frozenset()) >= set(one.gpu_indices) for one in shares)
