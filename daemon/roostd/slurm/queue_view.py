"""The view of Slurm's queue: which jobs Roost may place, what others hold, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeShare
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob
from roostd.slurm.lives import Life
from roostd.slurm.precedence import SeenPriorities
from roostd.slurm.reserved_gpus import Poll, ReservedGpus, job_id_of
from roostd.slurm.rules.held_back import HeldBackJobs
from roostd.slurm.rules.site_rules import SiteRules

Request: TypeAlias = tuple[JobSpec, float]


@dataclass(frozen=True, slots=True)
class SlurmQueueView:
    """The queue in the engine's terms.

    Attributes:
        waiting: jobs that Roost may place.
        running: what every job with an allocation holds on GPU nodes.
        blocked: waiting jobs under Roost that are held, depend on another job or are beyond their
            array's limit; the value says which. Their leases must be renewed too, or Slurm starts
            them by itself as soon as that ends.
        unmanaged: pending jobs that plain Slurm places, and why.
        lives: the life of the job that each entry describes: Slurm may reuse a number, and may
            requeue a job.
        numbers: the job of each record that is a single job, by Slurm's own number: tasks of an
            array have numbers of their own once they have left the array's record.
        settle_until_s: engine time before which a requeued job must not start.
        forgotten_on: nodes where a waiting job ran though Slurm has lost its start; the job is not
            placed there again.
        requests: the request of every running job, and engine time of its start; None: the job is
            not under Roost.
        runs: of every running job, what Slurm's own rules know of it.
        held_back: the jobs that one of Slurm's rules holds back; they are in `blocked` too.
        reads: of each record that waits, what its JobSpecs were read from; see ReadFrom.
        rules: Slurm's own rules at that time.
        by_node: the nodes that reservations closed then, the limits on the CPUs of each node, and
            the reservations of GPUs into which it would run, by what these depend on in a job.
        reserved: the GPUs of reservations, by name. In `running` are those that are closed now.
        avoided: by job, the nodes where Slurm has not started it in time.
        polls: what jobs held, from the last poll before the last reading of the rules to now.
    """

    waiting: Mapping[JobId, JobSpec] = field(default_factory=dict)
    running: Mapping[JobId, tuple[NodeShare, ...]] = field(default_factory=dict)
    blocked: Mapping[JobId, str] = field(default_factory=dict)
    unmanaged: Mapping[JobId, str] = field(default_factory=dict)
    lives: Mapping[JobId, Life] = field(default_factory=dict)
    numbers: Mapping[int, JobId] = field(default_factory=dict)
    settle_until_s: Mapping[JobId, float] = field(default_factory=dict)
    forgotten_on: Mapping[JobId, frozenset[NodeName]] = field(default_factory=dict)
    requests: Mapping[JobId, Request | None] = field(default_factory=dict)
    runs: Mapping[JobId, "RunFacts"] = field(default_factory=dict)
    held_back: HeldBackJobs = field(default_factory=HeldBackJobs)
    reads: Mapping[int, "ReadFrom"] = field(default_factory=dict)
    rules: SiteRules = field(default_factory=SiteRules)
    by_node: Mapping[tuple[object, ...], "NodeRules"] = field(default_factory=dict)
    reserved: Mapping[str, ReservedGpus] = field(default_factory=dict)
    polls: tuple[Poll, ...] = ()
    avoided: Mapping[JobId, frozenset[NodeName]] = field(default_factory=dict)

    @property
    def unsure_nodes(self) -> frozenset[NodeName]:
        """Return the nodes of which it is not known which GPUs reservations close now."""
        closed = (gpus for name, gpus in self.reserved.items() if job_id_of(name) in self.running)
        return frozenset().union(*(gpus.unsure_nodes for gpus in closed))


# What a JobSpec is read from: fields of the record and its details. Reading a job takes about 100
# microseconds, comparing it 3, and most of thousands of jobs do not change between two polls.
NodeRules: TypeAlias = tuple[frozenset[NodeName], tuple[str, ...], frozenset[str]]
ReadFrom: TypeAlias = tuple[tuple[object, ...], JobDetail | None]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What Slurm's own rules know of a running job.

    Attributes:
        end_s: engine time at which its time limit ends it; None: it has none.
        preempt_class, spared_until_s: see events.JobStarted.
    """

    end_s: float | None = None
    preempt_class: str = ""
    spared_until_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteView:
    """What a view needs of the site beside the queue.

    Attributes:
        rules: Slurm's own rules.
        hand_over_s: a job that they have held back this long is left to plain Slurm.
        handed_over: jobs that are left to plain Slurm for another reason, and that reason.
        opened: arrays and jobs, by number, that Slurm may start as it likes; see short_runs.
        release_reasons: jobs that the engine has released, and why.
        priorities: which jobs people have moved in Slurm's queue.
        outside: by partition, the nodes that Roost does not give to its jobs.
        avoided: by job, the nodes where Slurm has not started it in time.
    """

    rules: SiteRules = field(default_factory=SiteRules)
    hand_over_s: float = inf
    handed_over: Mapping[JobId, str] = field(default_factory=dict)
    opened: frozenset[int] = frozenset()
    release_reasons: Mapping[JobId, str] = field(default_factory=dict)
    priorities: SeenPriorities = field(default_factory=SeenPriorities)
    outside: Mapping[str, frozenset[NodeName]] = field(default_factory=dict)
    avoided: Mapping[JobId, frozenset[NodeName]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A job that Roost may place: its request in the engine's terms, and in Slurm's."""

    spec: JobSpec
    job: QueuedJob
    detail: JobDetail
