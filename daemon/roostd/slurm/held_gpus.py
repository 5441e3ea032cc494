"""What running jobs, shared GPUs and reservations hold, in the engine's terms. Pure.

A part of `queue_reading`: it fills one view of Slurm's queue from one snapshot.
"""

from collections.abc import Collection
from dataclasses import replace

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roost_slurm.text.stamp import parse_stamp
from roostd.slurm.jobs import JobReader, Unmanaged
from roostd.slurm.lives import Lives, life_of_holder
from roostd.slurm.port import QueueSnapshot
from roostd.slurm.queue_view import Request, RunFacts, SlurmQueueView
from roostd.slurm.request import shares_of
from roostd.slurm.reserved_gpus import Poll, ReservedGpus, job_id_of, reserved_gpus
from roostd.slurm.rules.site_rules import SiteRules
from roostd.slurm.shared_gpus import SharedGpus, has_shared

_MOST_POLLS = 32  # the rules are read more often than that


class HeldGpus:
    """Collects what holds GPUs, one queue record at a time.

    Args:
        snapshot: of the queue.
        reader: turns records into JobSpecs.
        gpu_nodes: nodes with GPUs; what jobs hold on other nodes is left out.
        before: the view before this one.
        rules: Slurm's own rules.
        lives: of the jobs in this view; receives those of the holders.

    Attributes:
        running: what each holder has.
        runs: what is known of each run.
        requests: what each running job asked for; None: Roost does not know.
        reserved: what each reservation has.
        polls: the polls of the queue from which `reserved` was found.
    """

    def __init__(
        self,
        snapshot: QueueSnapshot,
        reader: JobReader,
        gpu_nodes: Collection[NodeName],
        before: SlurmQueueView,
        rules: SiteRules,
        lives: Lives,
    ) -> None:
        self._details, self._at_epoch_s = snapshot.details, snapshot.at_epoch_s
        self._reader, self._gpu_nodes = reader, frozenset(gpu_nodes)
        self._before, self._rules, self._lives = before, rules, lives
        self._shared = SharedGpus(gpu_nodes)
        self._holders: list[tuple[QueuedJob, tuple[NodeShare, ...]]] = []
        self.running: dict[JobId, tuple[NodeShare, ...]] = {}
        self.runs: dict[JobId, RunFacts] = {}
        self.requests: dict[JobId, Request | None] = {}
        self.reserved, self.polls = dict[str, ReservedGpus](), tuple[Poll, ...]()

    def add(self, job: QueuedJob) -> JobId:
        """Add a job that holds an allocation, and return its id."""
        job_id = JobId(job.job_ids[0])
        life = life_of_holder(job, self._before.lives.get(job_id))
        detail, facts = self._details.get(job.number), self._run_facts(job)
        # A suspended job keeps its GPUs; Slurm may give its CPUs to other jobs.
        shares = tuple(
            replace(share, cpu_count=0) if job.state is SlurmJobState.SUSPENDED else share
            for share in (shares_of(detail) if detail is not None else ())
            if share.node in self._gpu_nodes
        )
        if not shares and self._before.lives.get(job_id) == life:
            shares = self._before.running.get(job_id, ())  # its details are missing this time
        if shares:
            self.running[job_id] = shares
            self._holders.append((job, shares))
            self._lives.note(job_id, life)
            self.requests[job_id] = self._request(job, job_id, detail)
            self.runs[job_id] = facts
        if detail is not None and has_shared(detail):
            self._shared.add(detail, facts.end_s)
        return job_id

    def close_shared(self) -> None:
        """Close GPUs with shards or MPS of running jobs to all others, as if a job held them."""
        for job_id, share, end_s in self._shared.holders(self.running.values()):
            self.running[job_id], self.runs[job_id] = (share,), RunFacts(end_s)
            self._lives.now[job_id] = (0, 0.0, 0)

    def close_reserved(self, awaited: Collection[str]) -> None:
        """Close the GPUs of reservations likewise: during their windows, and before if awaited.

        Args:
            awaited: names of the reservations into whose windows a waiting job would run.
        """
        rules, before, now = self._rules, self._before, Poll(self._at_epoch_s, self._holders)
        polls = (*before.polls, now)[-_MOST_POLLS:]
        self.polls = polls if rules.read_epoch_s == before.rules.read_epoch_s else (now,)
        self.reserved = reserved_gpus(rules, polls, before.reserved)
        for name, gpus in self.reserved.items():
            is_on = gpus.start_epoch_s <= self._at_epoch_s < gpus.end_epoch_s
            if gpus.shares and (is_on or name in awaited):
                job_id = job_id_of(name)
                self.running[job_id] = gpus.shares
                self._lives.now[job_id] = (0, gpus.start_epoch_s, 0)
                self.runs[job_id] = RunFacts(self._reader.to_engine_s(gpus.end_epoch_s))

    def _run_facts(self, job: QueuedJob) -> RunFacts:
        if job.start_epoch_s is None:
            return RunFacts(None, self._rules.preempt_class(job))
        start_s = self._reader.to_engine_s(job.start_epoch_s)
        return RunFacts(
            None if job.time_limit_s is None else start_s + job.time_limit_s,
            self._rules.preempt_class(job),
            start_s + self._rules.preempt_exempt_s(job),
        )

    def _request(self, job: QueuedJob, job_id: JobId, detail: JobDetail | None) -> Request | None:
        """Return the request of a running job; read once, as reading all at each poll is slow."""
        is_same = self._lives.is_same(job_id)
        if is_same and job_id in self._before.requests:
            return self._present(self._before.requests[job_id], detail)
        if job.start_epoch_s is None or parse_stamp(job.admin_comment) is None:
            return None
        asked = self._before.waiting.get(job_id) if is_same else None
        spec = asked or self._reader.read(job, detail, job_id)
        if isinstance(spec, Unmanaged):
            return None
        return spec, self._reader.to_engine_s(job.start_epoch_s)

    def _present(self, request: Request | None, detail: JobDetail | None) -> Request | None:
        """Return a running job's request, without the opt-in to sharing if that was taken back."""
        if request is None or detail is None or not request[0].shares_gpus:
            return request
        if self._reader.opts_in(detail):
            return request
        return replace(request[0], shares_gpus=False), request[1]
