"""A queued job in Roost's terms, or the reason why Roost leaves it to plain Slurm."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import inf

from roost_engine.domain.model import JobId, JobSpec, NodeName, Shape
from roost_slurm.text.hostlist import expand
from roost_slurm.text.limits import MOST_TASKS
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.stamp import LEASE, OTHERS, RELEASED_STAMP
from roost_slurm.text.tres import SEAT_TOKEN, parse_memory_bytes
from roost_slurm.text.versions import Traits
from roostd.config.config import Mode
from roostd.slurm.comment import JobComment, parse_comment
from roostd.slurm.limits import (
    LONGEST_REASON,
    MOST_CPUS_PER_NODE,
    MOST_FEATURES,
    MOST_GPUS,
    MOST_GPUS_PER_NODE,
    MOST_MEMORY_PER_NODE_BYTES,
    MOST_NODES,
    MOST_SHAPES,
)
from roostd.slurm.request import pinned_indices, pinned_seat, spelled_requests
from roostd.slurm.user_request import UserRequest

NO_GPUS = "asks for no GPUs"
NOT_SPELLED = "Slurm's record of it shows no GPUs as Slurm writes them, gres:gpu:2 or gres/gpu:2"
NO_LEASE = (
    "has no lease: when it was submitted roostd was away, or did not place jobs of its partitions"
)
LEASED_BY_ANOTHER = "is leased by another roostd, whose heartbeat job_submit.lua reads"
STEERED_BY_ANOTHER = "another roostd steers now: job_submit.lua has its lease given to later jobs"
RELEASED = "was released to Slurm"
_FEATURES = re.compile(r"[A-Za-z0-9_.\-]+(?:[&,][A-Za-z0-9_.\-]+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """A job that Roost does not place.

    Attributes:
        reason: why, for a human; LONGEST_REASON characters at most.
    """

    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", self.reason[:LONGEST_REASON])


def is_of_another(job: QueuedJob) -> bool:
    """Return whether another roostd has leased a job; see stamp.seen_by."""
    return job.admin_comment.startswith(OTHERS)


def is_steered_by_another(jobs: Iterable[QueuedJob]) -> bool:
    """Return whether the waiting job that was leased last has the lease of another roostd.

    So it is after another controller has taken over, where a roostd runs beside each.
    """
    pending = [job for job in jobs if job.is_pending]
    theirs = max((job.submission_number for job in pending if is_of_another(job)), default=0)
    if not theirs:
        return False
    mine = (job.submission_number for job in pending if job.admin_comment.startswith(LEASE))
    return theirs > max(mine, default=0)


def comment_of(detail: JobDetail) -> JobComment | None:
    """Return what a job's comment states for Roost; None: nothing."""
    if detail.comment is None:
        return JobComment(problems=("it or the job's name imitates Slurm's output: not read",))
    return parse_comment(detail.comment)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReader:
    """Turns queue records into JobSpecs.

    Attributes:
        to_engine_s: turns wall clock time into engine time.
        mode_of: returns a partition's mode.
        traits: of the Slurm release.
        accounts_memory: whether Slurm allocates memory; where it does not, jobs ask for none.
        is_preemptible_qos: whether jobs of a QoS may be stopped though they name no checkpoint
            interval.
        is_sharing_qos: whether jobs of a QoS may share GPUs.
        memory_of: returns what the jobs of a user and name need of each GPU, if so much is stated;
            0: not known.
        is_model: whether a name is a GPU model of this site. A gres of that name is a token, which
            job_submit.lua adds for each GPU and a pin keeps.
        why_left: returns why the site leaves a job to Slurm; None: Roost may place it.
    """

    to_engine_s: Callable[[float], float]
    mode_of: Callable[[str], Mode]
    traits: Traits
    accounts_memory: bool
    is_preemptible_qos: Callable[[str], bool] = lambda qos: False
    is_sharing_qos: Callable[[str], bool] = lambda qos: False
    memory_of: Callable[[int, str, int], int] = lambda user_id, name, stated_bytes: stated_bytes
    is_model: Callable[[str], bool] = lambda name: False
    why_left: Callable[[QueuedJob], str | None] = lambda job: None

    def read(self, job: QueuedJob, detail: JobDetail | None, job_id: JobId) -> JobSpec | Unmanaged:
        """Read one pending job, or one task of a pending array."""
        request = UserRequest.of(job, detail)
        why_not = self._why_not(job, detail, request)
        if why_not is not None:
            return Unmanaged(why_not)
        assert detail is not None
        try:
            shapes = self._shapes(job, detail, request)
            required = expand(request.required_nodes)
            excluded = expand(detail.excluded_nodes)
        except ValueError as error:
            return Unmanaged(f"its request cannot be read: {error}")
        if isinstance(shapes, Unmanaged):
            return shapes
        if not shapes:
            return Unmanaged("its GPUs do not divide evenly among its nodes")
        partition = job.partition.partition(",")[0]
        mode = self.mode_of(partition)
        # Checked last: a job released for one of the reasons above has lost its lease by that.
        if mode is Mode.ENFORCE and (lacks := _why_unleased(job, request)):
            return Unmanaged(lacks)
        begin = request.stamp.begin_epoch_s if request.stamp else None
        comment = comment_of(detail) or JobComment()
        fixed = self._fixed_indices(job, request)
        shares, memory_bytes = self._shares_gpus(detail, request), comment.gpu_memory_bytes
        if shares:
            memory_bytes = self.memory_of(job.user_id, detail.name, memory_bytes)
        return JobSpec(
            job_id=job_id,
            user_id=job.user_id,
            partition=partition,
            shapes=shapes,
            priority=job.priority,
            submit_s=self.to_engine_s(job.submit_epoch_s),
            eligible_s=0.0 if begin is None else self.to_engine_s(begin),
            time_limit_s=job.time_limit_s,
            features=tuple(filter(None, re.split("[&,]", job.features))),
            required_nodes=tuple(map(NodeName, required)),
            excluded_nodes=tuple(map(NodeName, excluded)),
            binding=mode is Mode.ENFORCE,
            name=detail.name,
            model=comment.model,
            checkpoint_s=self._checkpoint_s(comment, detail),
            fixed_indices=fixed,
            fixed_seat=pinned_seat(dict(job.tres)) if fixed else 0,
            shares_gpus=shares,
            gpu_memory_bytes=memory_bytes,
            account=job.account,
            qos=job.qos,
        )

    def _fixed_indices(self, job: QueuedJob, request: UserRequest) -> tuple[int, ...]:
        """Return the only GPU indices that a job can have which Roost has pinned before."""
        if self.traits.can_untype or request.stamp is None or not request.stamp.was:
            return ()
        return pinned_indices(dict(job.tres))

    def opts_in(self, detail: JobDetail) -> bool:
        """Return whether a job may share GPUs: by its comment, or by its QoS if that is silent."""
        stated = (comment_of(detail) or JobComment()).shares_gpus
        return self.is_sharing_qos(detail.qos) if stated is None else stated

    def _shares_gpus(self, detail: JobDetail, request: UserRequest) -> bool:
        """Whether a job may share GPUs; on 22.05 one that has a token keeps it and may not."""
        if not self.opts_in(detail):
            return False
        return self.traits.can_untype or SEAT_TOKEN not in request.others

    def _checkpoint_s(self, comment: JobComment, detail: JobDetail) -> float | None:
        if comment.checkpoint_s is None and self.is_preemptible_qos(detail.qos):
            return inf  # the job may be stopped, and loses all its work
        return comment.checkpoint_s

    def _why_not(
        self, job: QueuedJob, detail: JobDetail | None, request: UserRequest
    ) -> str | None:
        mode = self.mode_of(job.partition.partition(",")[0])
        if mode is Mode.OFF:
            return f"partition {job.partition} is off"
        if job.unread_task_count:
            return (
                f"its array has {job.unread_task_count} tasks; Roost reads arrays of at most"
                f" {MOST_TASKS}"
            )
        if not request.is_readable:
            return f"its request cannot be read: {dict(job.tres)}"
        if not request.gpu_count:
            return NO_GPUS
        if (why_left := self.why_left(job)) is not None:
            return why_left
        if job.is_heterogeneous:
            return "is a part of a heterogeneous job"
        if detail is None:
            return "Slurm's record of it cannot be trusted: its name or comment imitates one"
        if detail.is_federated:
            return "may start on another cluster of the federation: Slurm takes no pin for it"
        if not spelled_requests(detail):
            return NOT_SPELLED
        if self._is_exclusive(job, detail):
            return "asks for whole nodes: --exclusive gets every GPU"
        if job.reservation:
            return f"runs in reservation {job.reservation}"
        if "," in job.partition:
            return f"may run in any of the partitions {job.partition}"
        if 0 < request.count("TresPerNode") < request.gpu_count:
            return "asks for GPUs in two ways, one of them a node: Slurm takes no pin for both"
        if request.kinds and job.admin_comment == RELEASED_STAMP:
            kinds = ", ".join(sorted(request.kinds))
            return f"was pinned and released: this Slurm gives it only the GPUs {kinds} of a node"
        if request.kinds:
            return f"names its GPUs itself: {', '.join(sorted(request.kinds))}"
        others = [name for name in sorted(request.others) if not self._is_token(name)]
        if others:
            return f"asks for {', '.join(others)} beside GPUs"
        if job.features and not _FEATURES.fullmatch(job.features):
            return f"constraint {job.features} is more than a list of features"
        if len(re.findall("[&,]", job.features)) >= MOST_FEATURES:
            return f"its constraint lists more than {MOST_FEATURES} features"
        return None

    def _is_token(self, name: str) -> bool:
        return name == SEAT_TOKEN or self.is_model(name)

    def _is_exclusive(self, job: QueuedJob, detail: JobDetail) -> bool:
        if detail.is_exclusive is not None:
            return detail.is_exclusive
        return self.traits.shows_exclusive and job.over_subscribe in ("NO", "EXCLUSIVE")

    def _shapes(
        self, job: QueuedJob, detail: JobDetail, request: UserRequest
    ) -> tuple[Shape, ...] | Unmanaged:
        """Return the job's first MOST_SHAPES shapes, the fewest nodes first.

        Raises:
            TresError: an amount of memory cannot be read.
            ValueError: a number of CPUs or nodes cannot be read.
        """
        allowed = request.allowed_node_counts(detail)
        if allowed[-1] > MOST_NODES:
            return _too_much("nodes", allowed[-1], MOST_NODES)
        if request.gpu_count > MOST_GPUS:
            return _too_much("GPUs", request.gpu_count, MOST_GPUS)
        all_shapes = self._every_shape(job, detail, request, allowed)
        shapes = tuple(islice(all_shapes, MOST_SHAPES))
        for shape in shapes:
            for what, asked, most in (
                ("GPUs a node", shape.gpus_per_node, MOST_GPUS_PER_NODE),
                ("CPUs a node", shape.cpus_per_node, MOST_CPUS_PER_NODE),
                ("bytes a node", shape.memory_per_node_bytes, MOST_MEMORY_PER_NODE_BYTES),
            ):
                if asked > most:
                    return _too_much(what, asked, most)
        return shapes

    def _every_shape(
        self, job: QueuedJob, detail: JobDetail, request: UserRequest, allowed: range
    ) -> Iterator[Shape]:
        for node_count in request.node_counts(allowed):
            gpus = request.gpus_per_node(node_count)
            if gpus:
                yield Shape(
                    node_count=node_count,
                    gpus_per_node=gpus,
                    cpus_per_node=request.cpus_per_node(job, node_count, gpus),
                    memory_per_node_bytes=self._memory(job, detail, request, node_count, gpus),
                )

    def _memory(
        self, job: QueuedJob, detail: JobDetail, request: UserRequest, node_count: int, gpus: int
    ) -> int:
        if not self.accounts_memory:
            return 0
        per_gpu = request.per_gpu("MemPerTres")
        if per_gpu:
            return parse_memory_bytes(per_gpu) * gpus
        if detail.memory_per_cpu_bytes is not None:
            cpus = request.cpus_per_node(job, node_count, gpus)
            return detail.memory_per_cpu_bytes * cpus
        if detail.memory_per_node_bytes is not None:
            return detail.memory_per_node_bytes
        # The job asked for none where memory is accounted: Slurm gives it the whole node's.
        return (job.memory_bytes or 0) // max(job.node_count, 1)


def _why_unleased(job: QueuedJob, request: UserRequest) -> str:
    """Return why a job is not under a lease of this roostd; "" if it is."""
    if is_of_another(job):
        return LEASED_BY_ANOTHER
    if request.stamp is None:
        return RELEASED if job.admin_comment == RELEASED_STAMP else NO_LEASE
    return ""


def _too_much(what: str, asked: int, most: int) -> Unmanaged:
    return Unmanaged(f"may get {asked} {what}; Roost places jobs of at most {most}")
