"""Views of Slurm's queue in the engine's terms. Pure: no clock, no I/O.

A view is read from one snapshot of the queue and the view before it.
"""

from collections.abc import Collection
from dataclasses import replace
from operator import attrgetter

from roost_engine.domain.model import JobId, JobSpec, NodeName
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roost_slurm.text.stamp import LEASE
from roostd.slurm.array_limits import ArrayLimits
from roostd.slurm.held_gpus import HeldGpus
from roostd.slurm.jobs import (
    NO_GPUS,
    NO_LEASE,
    RELEASED,
    STEERED_BY_ANOTHER,
    JobReader,
    Unmanaged,
    is_steered_by_another,
)
from roostd.slurm.limits import LONGEST_REASON
from roostd.slurm.lives import Lives, life_of
from roostd.slurm.port import QueueSnapshot
from roostd.slurm.queue_view import (
    NodeRules,
    ReadFrom,
    SiteView,
    SlurmQueueView,
)
from roostd.slurm.rules.held_back import HoldingBack, is_held_by_pin, is_pinned_comment
from roostd.slurm.rules.opt_in import NodeKinds, kinds_of, starts_elsewhere
from roostd.slurm.rules.shared_nodes import users_of_nodes

LEFT_BY_LIMIT = "left to Slurm, which holds it back"
ARRAY_IS_FULL = "as many tasks of its array come before it as may run at a time"
OPENED = "jobs of its kind are short, and no other job waits: Slurm starts it"
HELD = "; it is held"  # ends the reason of a job that is left to Slurm, while it is

_fields_read = attrgetter(
    *(
        *("submit_epoch_s", "restart_count", "array_number", "user_id", "partition", "task_count"),
        *("time_limit_s", "node_count", "cpu_count", "cpus_per_task", "tasks_per_node", "tres"),
        *("tres_total", "memory_bytes", "required_nodes", "features"),
        *("over_subscribe", "reservation", "is_heterogeneous", "unread_task_count", "task_ids"),
        *("admin_comment", "account", "qos", "licenses"),
    )
)


def view(
    snapshot: QueueSnapshot,
    reader: JobReader,
    gpu_nodes: Collection[NodeName],
    before: SlurmQueueView,
    at_s: float,
    site: SiteView | None = None,
) -> SlurmQueueView:
    """Return the view of a snapshot.

    Args:
        snapshot: of the queue.
        reader: turns records into JobSpecs.
        gpu_nodes: nodes with GPUs; what jobs hold on other nodes is left out.
        before: the view before this one.
        at_s: engine time.
        site: Slurm's own rules; None: there are none.
    """
    known = site or SiteView()
    reading = _Reading(snapshot, reader, gpu_nodes, before, at_s, known)
    # Tasks that left their array's record come first: they may have been placed already.
    for job in sorted(snapshot.jobs, key=lambda job: (len(job.task_ids) > 1, job.number)):
        if job.is_holding:
            reading.add_holder(job)
        elif job.is_pending:
            for job_id in map(JobId, job.job_ids):
                reading.add_pending(job, job_id)
    return reading.result()


class _Reading:
    """Builds a view, one queue record at a time."""

    def __init__(
        self,
        snapshot: QueueSnapshot,
        reader: JobReader,
        gpu_nodes: Collection[NodeName],
        before: SlurmQueueView,
        at_s: float,
        site: SiteView,
    ) -> None:
        self._details, self._reader = snapshot.details, reader
        self._before, self._at_s, self._at_epoch_s = before, at_s, snapshot.at_epoch_s
        self._site, self._rules = site, site.rules
        self._holding_back = HoldingBack(before.held_back, site.rules, at_s)
        self._reads: dict[int, ReadFrom] = {}
        self._read_first: dict[int, JobSpec | Unmanaged] = {}
        self._by_node: dict[tuple[object, ...], NodeRules] = {}
        self._outside_kinds: dict[str, NodeKinds] = {}  # by partition
        self._may_reuse = not before.held_back.refusals and self._rules.binds_like(before.rules)
        self._arrays = ArrayLimits(snapshot)
        self._is_displaced = is_steered_by_another(snapshot.jobs)
        self._users_of_nodes = users_of_nodes(
            snapshot.jobs, snapshot.details, site.rules.nodes, site.rules.partitions
        )
        self._waiting: dict[JobId, JobSpec] = {}
        self._blocked: dict[JobId, str] = {}
        self._unmanaged: dict[JobId, str] = {}
        self._lives = Lives(before.lives)
        self._held = HeldGpus(snapshot, reader, gpu_nodes, before, site.rules, self._lives)
        self._numbers: dict[int, JobId] = {}
        self._settle_until: dict[JobId, float] = {}
        self._forgotten_on: dict[JobId, frozenset[NodeName]] = {}

    def result(self) -> SlurmQueueView:
        """Return the view of the records that were added."""
        held = self._held
        held.close_shared()
        held.close_reserved({name for _, _, names in self._by_node.values() for name in names})
        return SlurmQueueView(
            waiting=self._waiting,
            running=held.running,
            blocked=self._blocked,
            unmanaged=self._unmanaged,
            lives=self._lives.now,
            numbers=self._numbers,
            settle_until_s=self._settle_until,
            forgotten_on=self._forgotten_on,
            requests=held.requests,
            runs=held.runs,
            held_back=self._holding_back.result(),
            reads=self._reads,
            rules=self._rules,
            by_node=self._by_node,
            reserved=held.reserved,
            polls=held.polls,
            avoided=self._site.avoided,
        )

    def add_holder(self, job: QueuedJob) -> None:
        """Add a job that holds an allocation."""
        self._numbers[job.number] = self._held.add(job)

    def add_pending(self, job: QueuedJob, job_id: JobId) -> None:
        """Add a job that waits."""
        self._lives.note(job_id, life_of(job))
        self._note_forgotten_start(job_id)
        if len(job.task_ids) < 2:
            self._numbers[job.number] = job_id
        if job_id in self._site.handed_over:
            self._unmanaged[job_id] = self._site.handed_over[job_id][:LONGEST_REASON]
            return
        if self._is_displaced and job.admin_comment.startswith(LEASE):
            # Its slurmctld is elsewhere, and wakes the other roostd: here each start takes a poll.
            self._unmanaged[job_id] = STEERED_BY_ANOTHER
            return
        if self._is_opened(job, job_id):
            self._unmanaged[job_id] = OPENED
            return
        known = self._unchanged(job, job_id)
        if known is not None:
            why_blocked = self._why_blocked(job)
            if why_blocked is not None:
                self._blocked[job_id] = why_blocked
            else:
                self._waiting[job_id] = self._with_precedence(known, job)
            return
        spec = self._read(job, job_id)
        if isinstance(spec, Unmanaged):
            self._unmanaged[job_id] = self._why_unmanaged(job, job_id, spec)
            return
        why_blocked = self._why_blocked(job)
        if why_blocked is not None:
            self._blocked[job_id] = why_blocked
            return
        if spec.job_id != job_id:
            spec = replace(spec, job_id=job_id)
        if spec.binding and self._is_held_back(job, job_id):
            return
        spec = self._with_rules(spec, job)
        settle_until_s = self._settle_until_s(job, job_id)
        if settle_until_s is not None:
            self._settle_until[job_id] = settle_until_s
            spec = replace(spec, eligible_s=max(spec.eligible_s, settle_until_s))
        if avoided := self._avoided(job_id):
            excluded = avoided.union(spec.excluded_nodes)
            spec = replace(spec, excluded_nodes=tuple(sorted(excluded)))
        spec = self._with_steady_facts(spec)
        self._waiting[job_id] = self._with_precedence(spec, job)

    def _is_opened(self, job: QueuedJob, job_id: JobId) -> bool:
        """Whether Slurm may start a job; not one that was edited meanwhile, and no longer is so."""
        if job.submission_number not in self._site.opened or job_id in self._forgotten_on:
            return False
        if job.priority == 0 or job.restart_count or is_pinned_comment(job.admin_comment):
            return False
        number = job.number
        if number not in self._reads:
            self._reads[number] = self._read_from(job)
        was_opened = self._before.unmanaged.get(job_id) == OPENED
        if was_opened and self._reads[number] is self._before.reads.get(number):
            return True
        spec = self._read(job, job_id)
        return isinstance(spec, JobSpec) and spec.binding and has_one_gpu(spec)

    def _read(self, job: QueuedJob, job_id: JobId) -> JobSpec | Unmanaged:
        """Read a job; of the tasks of an array's record, which differ in their id alone, the first.

        To read each of 5,000 tasks takes a tenth of a second.
        """
        if job.number not in self._read_first:
            self._read_first[job.number] = self._read_job(job, job_id)
        return self._read_first[job.number]

    def _read_job(self, job: QueuedJob, job_id: JobId) -> JobSpec | Unmanaged:
        spec = self._reader.read(job, self._details.get(job.number), job_id)
        if isinstance(spec, Unmanaged):
            return spec
        least_nodes = min(shape.node_count for shape in spec.shapes)
        why_left = self._rules.why_left(job, least_nodes)
        return spec if why_left is None else Unmanaged(why_left)

    def _why_unmanaged(self, job: QueuedJob, job_id: JobId, read: Unmanaged) -> str:
        """Return why plain Slurm places a job: as before, where it was started during the poll.

        squeue then still shows it pending, and scontrol what it got: one node for -N1-49999999.
        """
        detail, before = self._details.get(job.number), self._before
        is_started = detail is not None and detail.state is not SlurmJobState.PENDING
        if is_started and self._lives.is_same(job_id):
            return before.unmanaged.get(job_id, read.reason)
        reason = read.reason
        if reason in (NO_LEASE, RELEASED):
            reason = self._site.release_reasons.get(job_id, reason)
        return f"{reason}{HELD}" if job.priority == 0 and reason != NO_GPUS else reason

    def _unchanged(self, job: QueuedJob, job_id: JobId) -> JobSpec | None:
        """Return the JobSpec of the view before, if reading the job again would give the same."""
        number = job.number
        if number not in self._reads:
            self._reads[number] = self._read_from(job)
        before, spec = self._before, self._before.waiting.get(job_id)
        if spec is None or not self._may_reuse or job_id in before.settle_until_s:
            return None
        if self._site.avoided.get(job_id) != before.avoided.get(job_id):
            return None
        if job_id in before.held_back.jobs or is_pinned_comment(job.admin_comment):
            return None
        if self._reads[number] is not before.reads.get(number):
            return None
        if self._node_rules(job) != before.by_node.get(_bound_by(job)):
            return None
        return spec if spec.priority == job.priority else replace(spec, priority=job.priority)

    def _read_from(self, job: QueuedJob) -> ReadFrom:
        """Return what a job is read from: the object of the view before, if nothing has changed.

        If each poll made all of them, the garbage collector would scan them: with 20,000 jobs that
        takes 40 to 60 ms, in which the event loop does nothing else.
        """
        fields, detail = _fields_read(job), self._details.get(job.number)
        before = self._before.reads.get(job.number)
        if before is not None and before[1] is detail and before[0] == fields:
            return before
        return fields, detail

    def _node_rules(self, job: QueuedJob) -> NodeRules:
        key, rules, at_epoch_s = _bound_by(job), self._rules, self._at_epoch_s
        if key not in self._by_node:
            outside = self._site.outside.get(job.partition, frozenset())
            users = self._users_of_nodes.items()
            of_others = (name for name, user_id in users if user_id != job.user_id)
            self._by_node[key] = (
                rules.closed_nodes(job, at_epoch_s).union(outside, of_others),
                rules.node_quotas(job, at_epoch_s),
                rules.reserving(job, at_epoch_s),
            )
        return self._by_node[key]

    def _is_held_back(self, job: QueuedJob, job_id: JobId) -> bool:
        """Note a job that Slurm would not start; after a while it is left to plain Slurm."""
        detail, is_same = self._details.get(job.number), self._lives.is_same(job_id)
        held = self._holding_back.judge(job, detail, job_id, is_same)
        if held is None:
            return False
        if self._at_s - held.since_s >= self._site.hand_over_s:
            self._unmanaged[job_id] = f"{LEFT_BY_LIMIT}: {held.reason}"
        else:
            self._blocked[job_id] = f"Slurm would not start it: {held.reason}"
        return True

    def _with_rules(self, spec: JobSpec, job: QueuedJob) -> JobSpec:
        """Add to a request what Slurm's own rules say of the job."""
        rules = self._rules
        partition = rules.partitions.get(spec.partition)
        closed, node_quotas, _ = self._node_rules(job)
        return replace(
            spec,
            priority_tier=partition.tier if partition is not None else 0,
            quotas=rules.quotas(job) if spec.binding else (),
            node_quotas=node_quotas if spec.binding else (),
            preempts=tuple(sorted(rules.preempts(job))),
            excluded_nodes=tuple(sorted({*spec.excluded_nodes, *closed})),
            starts_elsewhere=spec.binding and self._starts_elsewhere(spec),
        )

    def _starts_elsewhere(self, spec: JobSpec) -> bool:
        """Return whether Slurm could start a job on nodes or CPUs that Roost does not give out."""
        rules, partition = self._rules, spec.partition
        if partition in rules.cpu_sharing:
            return True
        if partition not in self._outside_kinds:
            names = self._site.outside.get(partition, frozenset())
            nodes = (rules.nodes[name] for name in names if name in rules.nodes)
            self._outside_kinds[partition] = kinds_of(nodes)
        hidden = rules.hidden.get(partition, frozenset())
        return starts_elsewhere(spec, self._outside_kinds[partition], hidden)

    def _why_blocked(self, job: QueuedJob) -> str | None:
        if job.priority == 0 and not is_held_by_pin(job.reason, job.admin_comment):
            return "is held: scontrol release frees it"
        if job.dependency:
            return f"depends on {job.dependency}"[:LONGEST_REASON]
        if not self._arrays.take(job.array_number):
            return ARRAY_IS_FULL
        return None

    def _settle_until_s(self, job: QueuedJob, job_id: JobId) -> float | None:
        """Return when a requeued job may start again; the same for as long as the job waits.

        A requeued job that a daemon finds waiting at its start counts as requeued just now.
        """
        if job_id in self._before.settle_until_s:
            return self._before.settle_until_s[job_id]
        is_new = bool(job.restart_count) and job_id not in self._before.lives
        if not is_new and job_id not in self._before.running:
            return None
        return self._at_s + self._reader.traits.requeue_pause_s

    def _note_forgotten_start(self, job_id: JobId) -> None:
        """Note the nodes of a job that ran and that waits, though Slurm has not requeued it.

        slurmctld, killed, forgets the starts of its last 5 s. The node takes the job for running
        until slurmctld ends it there; where it ends by itself, slurmctld does not. Then slurmd
        refuses to launch it again ("already running, do not launch second copy"), and slurmctld
        holds the job and drains the node ("Duplicate jobid"), also minutes later (22.05).
        """
        before = self._before
        if not self._lives.is_same(job_id):
            return
        shares = before.running.get(job_id, ())
        nodes = before.forgotten_on.get(job_id, frozenset()).union(share.node for share in shares)
        if nodes:
            self._forgotten_on[job_id] = nodes

    def _avoided(self, job_id: JobId) -> frozenset[NodeName]:
        forgotten = self._forgotten_on.get(job_id, frozenset())
        return forgotten | self._site.avoided.get(job_id, frozenset())

    def _with_precedence(self, spec: JobSpec, job: QueuedJob) -> JobSpec:
        seen = self._site.priorities
        precedence = seen.precedences.get(job.number, 0)
        overtakes = seen.overtakes.get(job.number, ())
        if (spec.precedence, spec.overtakes) == (precedence, overtakes):
            return spec
        return replace(spec, precedence=precedence, overtakes=overtakes)

    def _with_steady_facts(self, spec: JobSpec) -> JobSpec:
        """Keep the submission of a waiting job as long ago as before, if the clock was set.

        A job that was submitted while the clock was ahead counts as submitted now: orders by
        submission would put it behind every job that comes until the clock gets there.
        """
        before = self._before.waiting.get(spec.job_id)
        if before is not None and self._lives.is_same(spec.job_id):
            return replace(spec, submit_s=before.submit_s)
        return spec if spec.submit_s <= self._at_s else replace(spec, submit_s=self._at_s)


def has_one_gpu(spec: JobSpec) -> bool:
    """Return whether a job has one GPU, to itself, and no preference among GPUs."""
    has_one = all(shape.gpu_count == 1 for shape in spec.shapes)
    return has_one and not (spec.shares_gpus or spec.fixed_indices or spec.preempts)


def _bound_by(job: QueuedJob) -> tuple[object, ...]:
    """Return what decides which limits on single nodes hold for a job."""
    return job.time_limit_s, job.reservation, job.user_id, job.account, job.partition
