"""The newest report of each node's probe; earlier samples are dropped."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from roost_engine.domain.errors import ProbeError
from roost_engine.domain.events import Event, GpuHealthChanged, LoadsSeen, TopologySeen
from roost_engine.domain.model import GpuUuid, NodeName
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.telemetry.claim import KNOWN_GPUS_S, Claim, may_take_over
from roostd.telemetry.probe_messages import ProbeHello, check_values, faults, read_load

_NO_CLAIM = Claim()
_MIG = "in MIG mode"


@dataclass(slots=True)
class NodeReport:
    """The newest report of one node.

    Attributes:
        hello: what does not change while a probe runs.
        sample_at_s: engine time of the sample, or of the Hello before the first.
        faults: by gres index; kept until a Hello of another session with GPUs, which shows that the
            node or the driver was restarted.
        faults_session_id: of the session that reported the faults.
        stream: the stream that may report; None while the probe is disconnected.
        claim: the evidence of that stream's right to report.
        is_known: whether the claim names a GPU that is known from this node; true too where no GPU
            of the node is known.
        is_suspect: whether the last sample whose values were checked had implausible ones.
        has_foreign_memory: whether processes of no job hold memory here: the probe is to list them.
    """

    hello: ProbeHello
    sample_at_s: float
    checked: pb.Sample | None = None
    unchecked: pb.Sample | None = None
    faults: dict[int, str] = field(default_factory=dict)
    faults_session_id: str = ""
    stream: object | None = None
    claim: Claim = _NO_CLAIM
    is_known: bool = True
    is_suspect: bool = False
    has_foreign_memory: bool = False

    @property
    def newest(self) -> pb.Sample | None:
        """Return the newest sample, whose values may not have been checked; None: there is none."""
        return self.checked if self.unchecked is None else self.unchecked

    @property
    def sample(self) -> pb.Sample | None:
        """Return the newest sample, or the last plausible one; None before the first.

        Values are checked here, on reading: a sample comes each second, and few are
        read before the next.
        """
        if self.unchecked is not None:
            sample, self.unchecked = self.unchecked, None
            try:
                check_values(sample, self.hello)
            except ProbeError:
                self.is_suspect = True
            else:
                self.checked = sample
        return self.checked


class ProbeBoard:
    """Stores the newest report of every node, and turns reports into events.

    Args:
        now_s: returns engine time.
        emit: takes events that must not wait: topology and health.
    """

    def __init__(self, now_s: Callable[[], float], emit: Callable[[Event], None]) -> None:
        self._now_s, self._emit = now_s, emit
        self._reports: dict[NodeName, NodeReport] = {}
        self._fresh: dict[NodeName, None] = {}
        self._named: set[NodeName] = set()  # nodes that Slurm names
        self._known_gpus: dict[NodeName, frozenset[GpuUuid]] = {}  # of nodes that Slurm names

    def report(self, node: NodeName) -> NodeReport | None:
        """Return the newest report of a node; None: it never had a probe."""
        return self._reports.get(node)

    def live_report(self, node: NodeName, stale_after_s: float) -> NodeReport | None:
        """Return the newest report of a node; None: it has no probe, or one silent for so long."""
        report = self._reports.get(node)
        return None if report is None or self.silent_s(report) > stale_after_s else report

    @property
    def node_count(self) -> int:
        """The number of nodes that ever had a probe."""
        return len(self._reports)

    def knows_nodes(self) -> bool:
        """Return whether Slurm has named a node yet."""
        return bool(self._named)

    def is_named(self, node: NodeName) -> bool:
        """Return whether Slurm names this node."""
        return node in self._named

    def may_report(self, claim: Claim, node: NodeName, stream: object, patience_s: float) -> bool:
        """Return whether a stream may report for a node, even in place of another stream.

        Args:
            claim: the evidence of the stream's right.
            node: the node.
            stream: the stream.
            patience_s: any probe may replace one that was silent for longer.
        """
        report = self._reports.get(node)
        if report is None or report.stream is None or report.stream is stream:
            return True
        known, silent_s = self._known_gpus.get(node, frozenset()), self.silent_s(report)
        return may_take_over(claim, report.claim, known, silent_s, patience_s)

    def count_since(self, at_s: float) -> int:
        """Return how many nodes of Slurm's have reported since that engine time."""
        return sum(
            node in self._named and report.sample_at_s >= at_s
            for node, report in self._reports.items()
        )

    def silent_s(self, report: NodeReport) -> float:
        """Return the seconds since the node's last sample, or since its Hello without one."""
        return self._now_s() - report.sample_at_s

    def apply_hello(
        self, hello: ProbeHello, stream: object, claim: Claim = _NO_CLAIM
    ) -> NodeReport:
        """Apply a Hello; from now on only this stream reports for the node."""
        before = self._reports.get(hello.node)
        report = NodeReport(
            hello,
            self._now_s(),
            faults_session_id=hello.session_id,
            stream=stream,
            claim=claim,
            is_known=self._learn_gpus(hello.node, claim, before),
        )
        self._reports[hello.node] = report
        self._fresh.pop(hello.node, None)
        if before is not None:
            before.stream = None
        if before is not None:
            self._inherit_faults(report, before)
        self._note_mig(report)
        # A Hello without GPUs has no links, so the engine keeps those reported before.
        if hello.gpus and (before is None or before.hello.links != hello.links):
            self._emit_topology(report)
        return report

    def _learn_gpus(self, node: NodeName, claim: Claim, before: NodeReport | None) -> bool:
        """Store the node's GPUs; return whether the claim names a GPU that was known before."""
        known = self._known_gpus.get(node, frozenset())
        if before is not None and self.silent_s(before) > KNOWN_GPUS_S:
            known = frozenset()
        is_known = not known or claim.has_certificate or claim.names_known_gpu(known)
        if is_known and claim.gpu_uuids and node in self._named:
            self._known_gpus[node] = claim.gpu_uuids
        return is_known

    def apply_sample(self, report: NodeReport, sample: pb.Sample, *, is_checked: bool) -> None:
        """Store a sample, and emit the faults that are new in it.

        Args:
            report: of its node.
            sample: what `check_shape` has passed.
            is_checked: whether `check_values` has passed it too.
        """
        report.sample_at_s = self._now_s()
        if is_checked:
            report.checked, report.unchecked, report.is_suspect = sample, None, False
        else:
            report.unchecked = sample
        if not report.hello.gpus:
            return
        self._fresh[report.hello.node] = None
        for index, fault in faults(sample, report.hello.order).items():
            if report.faults.get(index) != fault:
                report.faults[index] = fault
                self._emit_health(report.hello.node, index, fault)

    def leave(self, node: NodeName, stream: object) -> None:
        """Note that a stream ended."""
        report = self._reports.get(node)
        if report is not None and report.stream is stream:
            report.stream = None
            if node not in self._named:
                self._drop(node)  # a probe may invent any number of names

    def forget(self, node: NodeName) -> None:
        """Note that Slurm no longer names the node."""
        self._named.discard(node)
        self._known_gpus.pop(node, None)
        report = self._reports.get(node)
        if report is not None and report.stream is None:
            self._drop(node)

    def take_fresh(self) -> Iterator[NodeReport]:
        """Yield the report of every node that sent a sample since it was last yielded.

        Samples may come, and nodes go, before all were yielded.
        """
        for node in list(self._fresh):
            if node in self._fresh:
                del self._fresh[node]
                yield self._reports[node]

    def introduce(self, node: NodeName) -> Iterator[Event]:
        """Note that Slurm names the node, and yield the events that its report makes."""
        self._named.add(node)
        report = self._reports.get(node)
        if report is None or not report.hello.gpus:
            return
        at_s = self._now_s()
        hello = report.hello
        yield _topology(hello, at_s)
        for index, fault in report.faults.items():
            yield GpuHealthChanged(at_s=at_s, name=node, gpu_index=index, fault=fault)
        if report.sample is not None:
            load = read_load(report.sample, hello.order)[None]
            yield LoadsSeen(at_s=at_s, names=(node,), load=load)

    def _drop(self, node: NodeName) -> None:
        del self._reports[node]
        self._fresh.pop(node, None)

    def _inherit_faults(self, report: NodeReport, before: NodeReport) -> None:
        if not report.hello.gpus or before.faults_session_id == report.hello.session_id:
            report.faults = before.faults
            report.faults_session_id = before.faults_session_id
            return
        for index in before.faults:
            self._emit_health(report.hello.node, index, "")

    def _note_mig(self, report: NodeReport) -> None:
        """Note GPUs in MIG mode: a job on the whole GPU would find nothing to compute on."""
        for index, gpu in enumerate(report.hello.gpus):
            fault = report.faults.get(index)
            if gpu.mig_enabled and not fault:
                report.faults[index] = _MIG
                self._emit_health(report.hello.node, index, _MIG)
            elif fault == _MIG and not gpu.mig_enabled:
                del report.faults[index]
                self._emit_health(report.hello.node, index, "")

    def _emit_topology(self, report: NodeReport) -> None:
        self._emit(_topology(report.hello, self._now_s()))

    def _emit_health(self, node: NodeName, gpu_index: int, fault: str) -> None:
        self._emit(
            GpuHealthChanged(at_s=self._now_s(), name=node, gpu_index=gpu_index, fault=fault)
        )


def _topology(hello: ProbeHello, at_s: float) -> TopologySeen:
    return TopologySeen(
        at_s=at_s,
        name=hello.node,
        links=hello.links,
        gpu_uuids=hello.gpu_uuids,
        gpu_memory_bytes=hello.gpu_memory_bytes,
    )
