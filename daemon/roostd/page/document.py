"""The state of the cluster as the page shows it: one JSON document, read from the daemon's state.

`roost.page/1`. A node's GPUs are lists, in the order of GPU_KEYS, and nodes with equal links share
one entry of `links`: 1,000 nodes with 8 GPUs each are some 250 kB, before compression.
"""

import contextlib
import heapq
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from math import inf
from typing import Any, NamedTuple, TypeAlias

from google.protobuf.json_format import MessageToDict

from roost_engine.domain.errors import UnknownJob
from roost_engine.domain.model import JobId, NodeName, NodeSpec
from roost_engine.domain.topology import LinkMatrix
from roost_engine.job_record import JobState, KnownJob
from roost_engine.queue.outlook import Outlook
from roost_proto.v1 import operator_pb2 as pb
from roostd.ops.slices import Slices
from roostd.rpc.errors import NoForecast
from roostd.rpc.messages import daemon_status, eta, explanations, nodes, timers
from roostd.rpc.messages.jobs import listed_job
from roostd.rpc.messages.outlook import outlooks
from roostd.state import DaemonState
from roostd.telemetry.board import NodeReport
from roostd.telemetry.probe_messages import column

SCHEMA = "roost.page/1"
GPU_KEYS = ("job_id", "sm_pct", "memory_pct", "temperature_c", "fault")
WAITING_LIMIT, PLACED_LIMIT = 200, 200
_TURNS_LIMIT = 2_000  # waiting jobs whose places in the queue are worth a sort of all of them
_WAITING = (JobState.WAITING, JobState.CLEARING)
_PLACED = (JobState.PLACING, JobState.RUNNING, JobState.STOPPING)

Document: TypeAlias = dict[str, Any]


async def build(state: DaemonState) -> str:
    """Return the document as JSON text.

    The nodes and jobs are read one after the other, with the daemon at work between them: each is
    right by itself, and a job that starts meanwhile may be seen to wait on a node that it holds.
    """
    slices = Slices()
    head = _head(state)
    await slices.give_way()
    links = _LinkTables()
    nodes = await _nodes(state, slices, links)
    jobs = await _Jobs.read(state, slices)
    head |= {
        "links": links.tables,
        "timers": [message_document(timer) for timer in timers.every(state)],
        "waiting_left_out": max(len(jobs.waiting) - WAITING_LIMIT, 0),
        "placed_left_out": max(len(jobs.placed) - PLACED_LIMIT, 0),
        "link_scores": jobs.link_scores,
    }
    listed = [text async for text in jobs.texts(state, slices)]
    text = json.dumps(head)
    return f'{text[:-1]}, "nodes": [{", ".join(nodes)}], "jobs": [{", ".join(listed)}]}}'


def message_document(
    message: pb.Timer | pb.Job | pb.Status | pb.Explanation | pb.ExpectedTime,
) -> Document:
    """Return a message as JSON's types, with the names of operator.proto and all its fields."""
    return MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


class JobAnswer(NamedTuple):
    """What the page shows of one job.

    Attributes:
        explanation: why it is where it is.
        start: when it is expected to start; None: it does not wait, or has no fresh forecast.
    """

    explanation: pb.Explanation
    start: pb.ExpectedTime | None


def job_answer(state: DaemonState, job_id: JobId) -> JobAnswer:
    """Return what the page shows of a job.

    Raises:
        UnknownJob: neither the engine nor Slurm's queue has it.
    """
    return JobAnswer(explanations.explanation(state, job_id), _expected_start(state, job_id))


def job_document(answer: JobAnswer) -> Document:
    """Return what the page shows of a job as JSON's types; slow, so outside the event loop."""
    start = None if answer.start is None else message_document(answer.start)
    return message_document(answer.explanation) | {"expected_start": start}


def _expected_start(state: DaemonState, job_id: JobId) -> pb.ExpectedTime | None:
    try:
        answer = eta.response(state, job_id)
    except (NoForecast, UnknownJob):
        return None
    (one,) = answer.etas
    return one.start if one.HasField("start") and not answer.fault else None


def _head(state: DaemonState) -> Document:
    """Return what is known of the daemon and the cluster as a whole."""
    named = {
        name for spec in state.engine.cluster.specs if spec is not None for name in spec.partitions
    }
    names = sorted(named.union(state.config.partitions))
    modes = [{"partition": name, "mode": str(state.config.mode_of(name))} for name in names]
    return {
        "schema": SCHEMA,
        "at_epoch_s": round(time.time(), 3),
        "status": message_document(daemon_status.status(state)),
        "partitions": modes,
        "gate": str(state.config.choice.in_effect.gate),
        "gpu_keys": GPU_KEYS,
    }


class _LinkTables:
    """The different link matrices, each once: [gpu count, [[a, b, symbol, score], ...]]."""

    def __init__(self) -> None:
        self.tables: list[tuple[int, list[tuple[int, int, str, int]]]] = []
        self._known: dict[int, int] = {}

    def number(self, kind: int, links: LinkMatrix) -> int:
        """Return the position in `tables` of the matrix of a kind of nodes (Cluster.kind)."""
        if kind not in self._known:
            self._known[kind] = len(self.tables)
            pairs = [
                (a, b, link.symbol, link.score)
                for a, row in enumerate(links.links)
                for b, link in enumerate(row)
                if link is not None and a < b
            ]
            self.tables.append((links.gpu_count, pairs))
        return self._known[kind]


async def _nodes(state: DaemonState, slices: Slices, links: _LinkTables) -> list[str]:
    held: dict[tuple[NodeName, int], JobId] = {}
    cluster = state.engine.cluster
    async for job_id in slices.over(list(cluster.held_jobs())):
        for share in cluster.shares(job_id):
            held |= {(share.node, gpu): job_id for gpu in share.gpu_indices}
    texts = []
    async for name in slices.over(nodes.node_names(state)):
        row = cluster.index_of.get(name)
        spec = None if row is None else cluster.specs[row]
        if row is not None and spec is not None:  # Slurm may have dropped it meanwhile
            texts.append(json.dumps(_node(state, spec, row, held, links)))
    return texts


def _node(
    state: DaemonState,
    spec: NodeSpec,
    row: int,
    held: Mapping[tuple[NodeName, int], JobId],
    links: _LinkTables,
) -> Document:
    cluster, report = state.engine.cluster, state.board.report(spec.name)
    loads, table = _loads(report, spec.gpu_count), None
    if report is not None and len(report.hello.gpus) == spec.gpu_count:
        table = links.number(int(cluster.kind[row]), report.hello.links)
    return {
        "name": spec.name,
        "rack": spec.rack,
        "partitions": spec.partitions,
        "usable": bool(cluster.usable[row]),
        "slurm_state": state.node_states.get(spec.name, ""),
        "cpus": [max(int(cluster.cpu_free[row]), 0), spec.cpu_count],
        "sample_age_s": None if report is None else round(state.board.silent_s(report), 1),
        "links": table,
        "problems": list(nodes.node_problems(state, spec.name, spec.gpu_count, report)),
        "gpus": [
            (held.get((spec.name, gpu), ""), *loads[gpu], cluster.faults.get((row, gpu), ""))
            for gpu in range(spec.gpu_count)
        ],
    }


def _loads(report: NodeReport | None, gpu_count: int) -> list[tuple[int | None, ...]]:
    """Return load, memory in use and temperature of each GPU, whole percents and degrees."""
    loads: list[tuple[int | None, ...]] = [(None, None, None)] * gpu_count
    if report is None or report.sample is None:
        return loads
    sample, order = report.sample, report.hello.order
    sizes = [gpu.memory_bytes for gpu in report.hello.gpus]
    columns = (
        column(sample.sm_frac, order),
        column(sample.memory_used_bytes, order),
        column(sample.temperature_c, order),
    )
    for gpu, (size, sm, used, heat) in enumerate(zip(sizes, *columns, strict=False)):
        if gpu < gpu_count:
            memory = None if used is None or not size else used / size
            loads[gpu] = _percent(sm), _percent(memory), None if heat is None else round(heat)
    return loads


def _percent(frac: float | None) -> int | None:
    return None if frac is None else round(100 * frac)


class _Jobs:
    """The jobs that wait and those that have GPUs.

    Attributes:
        waiting: (place in the queue, job), blocked jobs last.
        placed: (order, job), the newest first.
        link_scores: [score, best score] of each placed job on several GPUs.
    """

    def __init__(self) -> None:
        self.waiting, self.placed = list[tuple[float, JobId]](), list[tuple[float, JobId]]()
        self.link_scores: dict[JobId, tuple[int, int]] = {}
        self._turns: Mapping[JobId, Outlook] = {}

    @classmethod
    async def read(cls, state: DaemonState, slices: Slices) -> "_Jobs":
        """Sort the jobs that the engine knows."""
        jobs, engine = cls(), state.engine
        if len(engine.waiting()) <= _TURNS_LIMIT:
            jobs._turns = dict(outlooks(state))
        await slices.give_way()
        async for job_id, record in slices.over(list(engine.known_jobs())):
            if record.state in _WAITING:
                jobs._add_waiting(job_id)
            elif record.state in _PLACED:
                jobs._add_placed(state, job_id, record)
        jobs.waiting.extend(
            (inf, job_id) for job_id, one in state.unmanaged.items() if one.is_blocked
        )
        return jobs

    def _add_waiting(self, job_id: JobId) -> None:
        found = self._turns.get(job_id)
        place = None if found is None else found.position
        self.waiting.append((len(self.waiting) if place is None else place.position, job_id))

    def _add_placed(self, state: DaemonState, job_id: JobId, record: KnownJob) -> None:
        since_s = inf if record.started_s is None else record.started_s
        self.placed.append((-since_s, job_id))
        place = state.place(job_id, record)
        if place is not None:
            decision = place.decision.get()
            if decision.best_link_score:
                scores = int(decision.link_scores[0]), int(decision.best_link_score)
                self.link_scores[job_id] = scores

    async def texts(self, state: DaemonState, slices: Slices) -> AsyncIterator[str]:
        """Yield the JSON of each job that is listed."""
        chosen = [
            *heapq.nsmallest(WAITING_LIMIT, self.waiting),
            *heapq.nsmallest(PLACED_LIMIT, self.placed),
        ]
        async for _, job_id in slices.over(chosen):
            for text in _job(state, job_id, self._turns):
                yield text


def _job(state: DaemonState, job_id: JobId, turns: Mapping[JobId, Outlook]) -> Iterator[str]:
    """Yield a job's JSON; nothing for a job that Slurm has dropped meanwhile."""
    with contextlib.suppress(UnknownJob):
        document = message_document(listed_job(state, job_id, turns.get(job_id)))
        document["run_s"] = None
        known = state.engine.known(job_id)
        if known is not None and known.started_s is not None:
            document["run_s"] = round(state.clock.now_s() - known.started_s, 1)
        yield json.dumps(document)
