"""A job table on one node, for the tests of the table and of its parts."""

from math import inf

from roost_engine.domain.actions import Action
from roost_engine.domain.config import EngineConfig
from roost_engine.domain.events import JobEnded, JobStarted, WaitSoFar
from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeShare, Placement
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord
from roost_engine.policies.heuristics import PriorityOrder
from roost_engine.policies.slots import FaultLog, GateSlot, OrderSlot
from roost_engine.table.invariants import check_invariants
from roost_engine.table.job_table import JobTable
from roost_engine.table.refusals import refuse
from roost_engine.testing.builders import node
from roost_engine.testing.fakes import ScriptedGate

ONE, TWO, THREE = JobId("1"), JobId("2"), JobId("3")


class Tables:
    """A job table of one node with 8 GPUs, the gate it reports to, and the actions it returned."""

    def __init__(self, **config: float) -> None:
        self.gate, faults = ScriptedGate(), FaultLog()
        self.table = JobTable(
            EngineConfig(**config),  # type: ignore[arg-type]
            OrderSlot(PriorityOrder(), faults),
            GateSlot(self.gate, faults, longest_s=inf),
        )
        self.table.cluster.apply_node(node("a"))
        self.actions: list[Action] = []

    def queue(self, spec: JobSpec, at_s: float = 0.0, wait: WaitSoFar | None = None) -> JobRecord:
        self.table.queue_job(spec, at_s, self.actions, wait)
        check_invariants(self.table)
        return self.table.jobs[spec.job_id]

    def place(self, job_id: JobId, at_s: float = 0.0, *gpus: int, tier: Tier = Tier.NODE) -> None:
        """Decide a waiting job, as a pass of the engine does."""
        record = self.table.jobs[job_id]
        self.table.unqueue(job_id)
        record.placement = Placement((NodeName("a"),), gpus or (0,), record.spec.shapes[0], tier)
        self.table.begin_placing(job_id, record, record.placement, at_s)
        check_invariants(self.table)

    def start(
        self,
        job_id: JobId,
        *shares: NodeShare,
        at_s: float = 0.0,
        since_s: float | None = None,
        spec: JobSpec | None = None,
    ) -> JobRecord | None:
        found = self.table.start(
            JobStarted(at_s=at_s, job_id=job_id, shares=shares, job=spec, since_s=since_s)
        )
        check_invariants(self.table)
        return found

    def end(self, job_id: JobId, at_s: float = 0.0) -> None:
        self.table.end(JobEnded(at_s=at_s, job_id=job_id))
        check_invariants(self.table)

    def refuse(self, job_id: JobId, at_s: float) -> None:
        refuse(self.table, job_id, "node busy", at_s, self.actions)
        check_invariants(self.table)
