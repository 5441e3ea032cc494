"""Slurm in memory: for tests, and for the demonstration where Slurm cannot be installed.

It interprets the same command lines that Roost gives scontrol, and keeps leases. It starts a job on
exactly the GPUs that a typed request names, and otherwise on the lowest free ones, as Slurm does
where it knows no links. Only the parts of Slurm that Roost uses are implemented.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Unpack

from roost_engine.domain.errors import SlurmRefused, SlurmTimeout
from roost_engine.domain.model import JobId, NodeName, NodeShare, NodeSpec, Placement
from roost_slurm.hooks.spool import Ended, SpoolEvent, Started, Submitted
from roost_slurm.text import commands, sinfo
from roost_slurm.text.commands import Argv
from roost_slurm.text.hostlist import expand
from roost_slurm.text.scontrol import AllocatedNode, JobDetail, Settings
from roost_slurm.text.shadow_question import FirstStart
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roost_slurm.text.stamp import advice, with_eta
from roost_slurm.text.versions import SlurmVersion, traits_of
from roostd.slurm.port import HELD_STATE, JobNotWaiting, QueueSnapshot, SlurmNode
from roostd.slurm.queue import begins_of, by_begin, comments_of
from roostd.slurm.request import (
    check_repinnable,
    check_requeuable,
    pin_calls,
    shares_of,
    unpin_calls,
)
from roostd.slurm.rules.site_rules import SiteRules
from roostd.testing.slurm_faults import Fault, Faults
from roostd.testing.slurm_stand_in_job import (
    FreeNode,
    StandInJob,
    allocate,
    detail,
    free_on,
    queued,
)
from roostd.testing.slurm_stand_in_submission import Submission, jobs_of

_VERSION = SlurmVersion(24, 11, 5)


class SlurmStandIn:
    """A Slurm that lives in this process. See roostd.slurm.port.SlurmPort.

    Attributes:
        listeners: called with what the hooks and job_submit.lua would write into the spool.
        argvs: every update that it received.
        site_rules: what rules() returns; the stand-in itself does not follow them.
        first_starts: answers shadow questions, whose options the stand-in does not read.

    Args:
        nodes: of the cluster; change them with set_node().
        lease_s: the lease that job_submit.lua gives a GPU job; None: roostd's heartbeat is stale.
        now: the wall clock, seconds since the epoch.
        version: the release to imitate.
        accounts_memory: whether jobs are allocated memory.
    """

    def __init__(
        self,
        nodes: Iterable[NodeSpec],
        *,
        lease_s: int | None = 60,
        now: Callable[[], float] = time.time,
        version: SlurmVersion = _VERSION,
        accounts_memory: bool = False,
    ) -> None:
        self.lease_s = lease_s
        self.listeners: list[Callable[[SpoolEvent], None]] = []
        self.argvs: list[Argv] = []
        self.site_rules = SiteRules()
        self.first_starts: Callable[[Argv], FirstStart | None] = lambda question: None
        self._nodes = {spec.name: spec for spec in nodes}
        self._now, self._version, self._accounts_memory = now, version, accounts_memory
        self._jobs: dict[JobId, StandInJob] = {}
        self._last_number = 0
        self._faults = Faults()

    # -- users, operators and faults -------------------------------------------------------

    def submit(self, **asked: Unpack[Submission]) -> tuple[JobId, ...]:
        """Submit a job, or an array of them. Returns "1", or "1_0", "1_1", ... for an array."""
        prefix = traits_of(self._version).gres_prefix
        now_s = self._now()
        jobs = tuple(jobs_of(asked, self._last_number + 1, now_s, prefix, self.lease_s))
        self._last_number += len(jobs)
        self._jobs.update((job.job_id, job) for job in jobs)
        self._notify(Submitted(jobs[0].user_id, jobs[0].partition))
        self.tick()
        return tuple(job.job_id for job in jobs)

    def end(self, job_id: JobId) -> None:
        """End a job, or cancel one that waits."""
        job = self._jobs.pop(job_id)
        if job.state is SlurmJobState.RUNNING:
            self._notify(Ended(job_id))
        self.tick()

    def stop(self, job_id: JobId) -> None:
        """Stop a running job, which then waits again, for at least two minutes as under Slurm."""
        job = self._jobs[job_id]
        job.state, job.allocated, job.reason = SlurmJobState.PENDING, (), "BeginTime"
        job.restart_count += 1
        job.start_epoch_s = 0.0
        job.begin_epoch_s = self._now() + 121
        self._notify(Ended(job_id))
        self.tick()

    def hold(self, job_id: JobId, *, release: bool = False) -> None:
        """Hold a waiting job, or release it, as `scontrol hold` and `scontrol release`."""
        self._jobs[job_id].priority = int(release)

    def prioritize(self, job_id: JobId, priority: int, nice: int = 0) -> None:
        """Set a waiting job's priority and nice value, as `scontrol update` and Slurm do."""
        self._jobs[job_id].priority, self._jobs[job_id].nice = priority, nice

    def update(self, job_id: JobId, **values: str) -> None:
        """Change a waiting job as its owner may: `scontrol update StartTime=now`."""
        self._change(self._jobs[job_id], values)
        self.tick()

    def admin_comment(self, job_id: JobId) -> str:
        """Return a job's admin comment."""
        return self._jobs[job_id].admin_comment

    def set_node(self, spec: NodeSpec) -> None:
        """Add a node, or change one."""
        self._nodes[spec.name] = spec
        self.tick()

    def inject(self, operation: str, *faults: Fault) -> None:
        """Make the next calls of an operation ("pin", "renew", "queue", ...) fail, in turn."""
        self._faults.add(operation, *faults)

    def state(self, job_id: JobId) -> SlurmJobState | None:
        """Return a job's state; None when it is gone."""
        job = self._jobs.get(job_id)
        return job.state if job is not None else None

    def lease_left_s(self, job_id: JobId) -> float:
        """Return the seconds until a waiting job may begin."""
        return self._jobs[job_id].begin_epoch_s - self._now()

    def tick(self) -> None:
        """Apply the time that has passed: jobs end, leases end, jobs start."""
        now_s = self._now()
        for job in list(self._jobs.values()):
            is_over = job.run_s is not None and job.start_epoch_s + job.run_s <= now_s
            if job.state is SlurmJobState.RUNNING and is_over:
                del self._jobs[job.job_id]
                self._notify(Ended(job.job_id))
        waiting = (job for job in self._jobs.values() if job.state is SlurmJobState.PENDING)
        for job in sorted(waiting, key=lambda job: (-job.priority, job.number)):
            self._try_to_start(job, now_s)

    async def run(self, interval_s: float = 0.05) -> None:
        """Tick until cancelled."""
        while True:
            self.tick()
            await asyncio.sleep(interval_s)

    # -- SlurmPort -------------------------------------------------------------------------

    async def version(self) -> SlurmVersion:
        """See SlurmPort."""
        return self._version

    async def settings(self) -> Settings:
        """See SlurmPort."""
        return Settings(cluster_name="stand-in", accounts_memory=self._accounts_memory)

    async def rules(self) -> SiteRules:
        """See SlurmPort."""
        return self.site_rules

    def forget_limits(self) -> None:
        """See SlurmPort."""

    async def ping(self) -> None:
        """See SlurmPort."""
        self._faults.meet("ping", commands.ping())

    async def nodes(self) -> tuple[SlurmNode, ...]:
        """See SlurmPort."""
        self._faults.meet("nodes", commands.show_nodes())
        free = self._free()
        return tuple(
            SlurmNode(
                spec=spec,
                state="idle" if len(free[name].gpus) == spec.gpu_count else "mixed",
                reason="",
                cpu_allocated_count=spec.cpu_count - free[name].cpu_count,
                memory_allocated_bytes=spec.memory_bytes - free[name].memory_bytes,
            )
            for name, spec in self._nodes.items()
        )

    async def node_states(self, names: Sequence[NodeName]) -> Mapping[NodeName, str]:
        """See SlurmPort."""
        self._faults.meet("node_states", sinfo.node_states(names))
        return {name: "idle" if self._nodes[name].usable else "drained" for name in names}

    async def first_start(self, question: Argv) -> FirstStart | None:
        """See SlurmPort."""
        self._faults.meet("first_start", question)
        return self.first_starts(question)

    async def queue(self) -> QueueSnapshot:
        """See SlurmPort."""
        self._faults.meet("queue", commands.queue())
        self.tick()
        return QueueSnapshot(
            at_epoch_s=self._now(),
            jobs=tuple(map(self._queued, self._jobs.values())),
            details={job.number: self._detail(job) for job in self._jobs.values()},
        )

    async def allocation(self, job_id: JobId) -> tuple[NodeShare, ...]:
        """Return what a job holds now; empty when it holds nothing or is gone."""
        self._faults.meet("allocation", commands.show_job(job_id))
        self.tick()
        job = self._jobs.get(job_id)
        return shares_of(detail(job)) if job is not None else ()

    async def pin(
        self,
        job_id: JobId,
        placement: Placement,
        *,
        lease_s: int = 0,
        is_eligible: bool = False,
        beside: Sequence[JobId] = (),
    ) -> None:
        """See SlurmPort; its dumps show every comment, so that `beside` needs no look."""
        shown, traits = detail(self._waiting(job_id)), traits_of(self._version)
        check_repinnable(job_id, shown, placement, traits)
        calls = pin_calls(
            job_id, shown, placement, traits, lease_s=lease_s, is_eligible=is_eligible
        )
        for argv in calls:
            self._update("pin", argv)

    async def unpin(self, job_id: JobId, lease_s: int) -> str:
        """See SlurmPort."""
        job = self._waiting(job_id)
        traits = traits_of(self._version)
        reason = job.reason
        for argv in unpin_calls(job_id, detail(job), traits, lease_s):
            self._update("unpin", argv)
        return reason

    async def requeue(self, job_id: JobId) -> None:
        """See SlurmPort."""
        job, argv = self._jobs.get(job_id), commands.requeue(job_id)
        check_requeuable(job_id, detail(job) if job is not None else None)
        assert job is not None
        is_answer_lost = self._faults.meet("requeue", argv)
        if job.refuses_requeue:
            raise SlurmRefused(argv, 1, "Requested operation is presently disabled")
        self.argvs.append(argv)
        self.stop(job_id)
        if is_answer_lost:
            raise SlurmTimeout(argv, 0.0)

    async def renew(self, job_ids: Sequence[JobId], lease_s: int) -> None:
        """See SlurmPort."""
        begins, ends_s = begins_of(self._records(job_ids)), self._now() + lease_s
        due = [job_id for job_id in job_ids if begins.get(job_id, 0) <= ends_s]
        if due:
            self._update("renew", commands.renew(due, lease_s))

    async def let_start(self, job_ids: Sequence[JobId]) -> None:
        """See SlurmPort."""
        begins = begins_of(self._records(job_ids))
        due = [job_id for job_id in job_ids if begins.get(job_id, 0) <= self._now()]
        self._update("let_start", commands.let_start(due))

    async def release(self, job_ids: Sequence[JobId]) -> None:
        """See SlurmPort."""
        begins = begins_of(self._records(job_ids))
        for begin_s, ids in by_begin(job_ids, begins, self._now()).items():
            self._update("release", commands.release(ids, begin_s))

    async def advise(self, job_id: JobId, text: str) -> None:
        """See SlurmPort."""
        comment = advice(self._waiting(job_id).admin_comment, text)
        self._update("advise", commands.set_admin_comment([job_id], comment))

    async def foretell(self, job_id: JobId, text: str) -> None:
        """See SlurmPort."""
        comment = with_eta(self._waiting(job_id).admin_comment, text)
        self._update("foretell", commands.set_admin_comment([job_id], comment))

    async def announce(self, reasons: Mapping[JobId, str]) -> None:
        """See SlurmPort."""
        for comment, job_ids in comments_of(self._records(reasons), reasons).items():
            self._update("announce", commands.set_admin_comment(job_ids, comment))

    # -- inside ----------------------------------------------------------------------------

    def _records(self, job_ids: Iterable[JobId]) -> list[QueuedJob]:
        return [self._queued(self._jobs[one]) for one in job_ids if one in self._jobs]

    def _queued(self, job: StandInJob) -> QueuedJob:
        return queued(job)

    def _detail(self, job: StandInJob) -> JobDetail:
        return detail(job)

    def _notify(self, event: SpoolEvent) -> None:
        for listener in self.listeners:
            listener(event)

    def _waiting(self, job_id: JobId) -> StandInJob:
        job = self._jobs.get(job_id)
        if job is None:
            raise JobNotWaiting(job_id, "gone")
        if job.state is not SlurmJobState.PENDING or job.priority == 0:
            raise JobNotWaiting(job_id, HELD_STATE if job.priority == 0 else job.state.lower())
        return job

    def _update(self, operation: str, argv: Argv) -> None:
        """Do what `scontrol update` does: all of it or nothing; jobs that are gone are skipped."""
        is_answer_lost = self._faults.meet(operation, argv)
        self.argvs.append(argv)
        values = dict(word.partition("=")[::2] for word in argv[2:])
        unknown = set(expand(values.get("ReqNodeList", ""))) - set(self._nodes)
        if unknown:
            raise SlurmRefused(argv, 1, f"Invalid node name specified: {unknown}")
        for job_id in _expand_jobs(values.pop("jobid")):
            job = self._jobs.get(job_id)
            if job is not None and job.state is SlurmJobState.PENDING:
                self._change(job, values)
        self.tick()
        if is_answer_lost:
            raise SlurmTimeout(argv, 0.0)

    def _change(self, job: StandInJob, values: Mapping[str, str]) -> None:
        for name, value in values.items():
            match name:
                case "StartTime":
                    job.begin_epoch_s = self._begin(value)
                case "ReqNodeList":
                    job.required_nodes = value
                case "AdminComment":
                    job.admin_comment = value
                case "NumNodes":
                    least, _, most = value.partition("-")
                    job.node_range = int(least), int(most) if most else None
                case _ if value:
                    job.tres[name] = value
                case _:
                    job.tres.pop(name, None)

    def _begin(self, text: str) -> float:
        if text.startswith("now"):
            return self._now() + int(text.partition("+")[2] or 0)
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()

    def _try_to_start(self, job: StandInJob, now_s: float) -> None:
        if job.begin_epoch_s > now_s:
            job.reason = "BeginTime"
            return
        if job.priority == 0 or self._is_array_full(job):
            job.reason = "JobHeldAdmin" if job.priority == 0 else "JobArrayTaskLimit"
            return
        allocated = self._allocate(job)
        if allocated is None:
            job.reason = "Resources"
            return
        job.state, job.reason, job.allocated = SlurmJobState.RUNNING, "", allocated
        job.start_epoch_s = now_s
        self._notify(Started(job.job_id))

    def _is_array_full(self, job: StandInJob) -> bool:
        if job.array_number is None or job.task_limit is None:
            return False
        running = sum(
            other.state is SlurmJobState.RUNNING and other.array_number == job.array_number
            for other in self._jobs.values()
        )
        return running >= job.task_limit

    def _allocate(self, job: StandInJob) -> tuple[AllocatedNode, ...] | None:
        return allocate(job, self._nodes, self._free())

    def _free(self) -> dict[NodeName, FreeNode]:
        return free_on(self._nodes, self._jobs.values())


def _expand_jobs(text: str) -> list[JobId]:
    """Read `1,5_[0,2-3]`."""
    return [JobId(name) for name in expand(text)]
