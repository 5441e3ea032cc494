"""Random events against the engine, checked against a model of which job holds what."""

from itertools import combinations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from roost_engine.domain.actions import Action, Place, ReleaseToSlurm, Wait
from roost_engine.domain.events import (
    Event,
    ForeignMemorySeen,
    GpuHealthChanged,
    JobChanged,
    JobWithdrawn,
    NodeLost,
    NodeSeen,
)
from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeShare, NodeSpec, Placement
from roost_engine.domain.topology import LinkMatrix
from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobState, shares_of
from roost_engine.testing.builders import (
    GIB,
    EngineHarness,
    bridges,
    job,
    load_seen,
    node,
    nvswitch,
    shape,
    share,
    topology,
)

NODES = {
    "a": node("a", 8, cpu_count=16, memory_bytes=64 * GIB, rack="r1", features=["ib"]),
    "b": node("b", 8, cpu_count=16, memory_bytes=64 * GIB, rack="r1", partitions=["main", "x"]),
    "c": node("c", 8, rack="r2", features=["ib"]),
    "d": node("d", 4, rack="r2", partitions=["x"]),
}
LINKS = {"a": bridges(), "b": bridges(), "c": nvswitch(), "d": bridges(4)}

names = st.sampled_from(sorted(NODES))
shapes = st.builds(
    shape,
    st.sampled_from([1, 1, 2, 3, 4, 8]),
    st.sampled_from([1, 1, 1, 2]),
    cpus_per_node=st.sampled_from([1, 4, 12]),
    memory_bytes=st.sampled_from([0, 40 * GIB]),
)
some_names = st.lists(names, max_size=1)
requests = st.fixed_dictionaries(
    {
        "priority": st.integers(0, 2),
        "partition": st.sampled_from(["main", "main", "x"]),
        "features": st.sampled_from([(), (), ("ib",)]),
        "required": some_names,
        "excluded": some_names,
        "binding": st.sampled_from([True, True, True, False]),
    }
)


class EngineMachine(RuleBasedStateMachine):
    """Slurm, probes and users act in any order."""

    @initialize()
    def begin(self) -> None:
        config = EngineConfig(patience_s=60.0, refusal_limit=3, ended_job_count=5)
        self.harness = EngineHarness(config=config)
        self.nodes: dict[str, NodeSpec] = {}
        self.faults: set[tuple[str, int]] = set()
        self.foreign: set[tuple[str, int]] = set()  # GPUs with memory of no job
        self.claims: dict[str, tuple[NodeShare, ...]] = {}
        self.jobs: dict[str, JobSpec] = {}  # jobs that were queued and have not ended
        self.count = 0
        for name in NODES:
            self.see(NODES[name])
            self.tell(topology(name, LINKS[name]))

    # -- events ----------------------------------------------------------------------------

    @rule(wanted=st.lists(shapes, min_size=1, max_size=2), request=requests)
    def submit(self, wanted: list[object], request: dict[str, object]) -> None:
        self.count += 1
        job_id = str(self.count)
        self.queue(job(job_id, *wanted, submit_s=self.harness.now_s, **request))  # type: ignore[arg-type]

    @rule(wanted=shapes, delay_s=st.floats(1.0, 50.0))
    def submit_for_later(self, wanted: object, delay_s: float) -> None:
        self.count += 1
        eligible_s = self.harness.now_s + delay_s
        self.queue(job(str(self.count), wanted, eligible_s=eligible_s))  # type: ignore[arg-type]

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), wanted=shapes)
    def change(self, data: st.DataObject, wanted: object) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.jobs)))
        if self.harness.state(job_id) in (JobState.WAITING, JobState.PLACING):
            self.jobs[job_id] = spec = job(job_id, wanted)  # type: ignore[arg-type]
            if self.harness.engine.record(JobId(job_id)).spec != spec:
                self.claims.pop(job_id, None)
            self.tell(JobChanged(at_s=self.harness.now_s, job=spec))

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def withdraw_or_requeue(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.jobs)))
        self.claims.pop(job_id, None)
        if data.draw(st.booleans()):
            self.queue(self.jobs[job_id])
        else:
            reason = "held by its user"
            self.tell(JobWithdrawn(at_s=self.harness.now_s, job_id=JobId(job_id), reason=reason))
            assert self.harness.state(job_id) is JobState.RELEASED

    @precondition(lambda self: self.in_state(JobState.PLACING))
    @rule(data=st.data(), outcome=st.sampled_from(["start", "start", "elsewhere", "refuse"]))
    def answer_placement(self, data: st.DataObject, outcome: str) -> None:
        job_id = data.draw(st.sampled_from(self.in_state(JobState.PLACING)))
        if outcome == "refuse":
            self.claims.pop(job_id)
            self.check(self.harness.refuse(job_id))
        elif outcome == "start":
            self.start(job_id, self.claims[job_id])
        else:
            self.start(job_id, (share(data.draw(names), 0, 1),))

    @rule(name=names, gpus=st.sets(st.integers(0, 3), min_size=1))
    def outsider_starts(self, name: str, gpus: set[int]) -> None:
        self.count += 1
        self.start(str(self.count), (share(name, *sorted(gpus), cpu_count=3),))

    @precondition(lambda self: self.in_state(JobState.RUNNING) or self.jobs)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        running = self.in_state(JobState.RUNNING)
        job_id = data.draw(st.sampled_from(running or sorted(self.jobs)))
        self.claims.pop(job_id, None)
        self.jobs.pop(job_id, None)
        self.check(self.harness.end(job_id))

    @rule(name=names, usable=st.booleans(), cpu_count=st.sampled_from([4, 16, 64]))
    def slurm_reports_a_node(self, name: str, usable: bool, cpu_count: int) -> None:
        spec = NODES[name]
        self.see(
            node(
                name,
                spec.gpu_count,
                cpu_count=cpu_count,
                partitions=spec.partitions,
                rack=spec.rack,
                features=spec.features,
                usable=usable,
            )
        )

    @rule(name=names)
    def a_node_is_lost(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.foreign = {gpu for gpu in self.foreign if gpu[0] != name}
        self.tell(NodeLost(at_s=self.harness.now_s, name=NodeName(name)))

    @rule(name=names, gpu=st.integers(0, 7), is_broken=st.booleans())
    def a_gpu_breaks_or_recovers(self, name: str, gpu: int, is_broken: bool) -> None:
        if gpu < NODES[name].gpu_count:
            (self.faults.add if is_broken else self.faults.discard)((name, gpu))
        fault = "XID 79" if is_broken else ""
        self.tell(
            GpuHealthChanged(
                at_s=self.harness.now_s, name=NodeName(name), gpu_index=gpu, fault=fault
            )
        )

    @rule(name=names, gpu=st.integers(0, 7), gib=st.sampled_from([0, 1, 40]))
    def processes_of_no_job_use_memory(self, name: str, gpu: int, gib: int) -> None:
        if name in self.nodes and gpu < NODES[name].gpu_count:
            (self.foreign.add if gib else self.foreign.discard)((name, gpu))
        self.tell(
            ForeignMemorySeen(
                at_s=self.harness.now_s,
                name=NodeName(name),
                gpu_index=gpu,
                used_bytes=gib * GIB,
            )
        )

    @rule(name=names, level=st.sampled_from([0.0, 0.5, 1.0, float("nan"), -1.0, 1e30]))
    def a_probe_reports_the_load(self, name: str, level: float) -> None:
        load = np.full((NODES[name].gpu_count, 4), level, dtype=np.float32)
        self.tell(load_seen(at_s=self.harness.now_s, name=NodeName(name), load=load))

    @rule(by_s=st.sampled_from([0.5, 3.0, 30.0, 300.0]))
    def time_passes(self, by_s: float) -> None:
        self.check(self.harness.advance(self.harness.now_s + by_s))

    # -- invariants ------------------------------------------------------------------------

    @invariant()
    def state_is_consistent(self) -> None:
        self.harness.engine.check_invariants()

    @invariant()
    def no_job_is_lost(self) -> None:
        for job_id in self.jobs:
            state = self.harness.state(job_id)
            assert state is not JobState.ENDED
            assert (state is JobState.WAITING) == (job_id in self.harness.engine.waiting())
        assert {
            job_id for job_id in self.claims if self.harness.state(job_id) is JobState.PLACING
        } == set(self.in_state(JobState.PLACING))

    def teardown(self) -> None:
        """Check that each job was placed or released once every node works and jobs end."""
        if not hasattr(self, "harness"):
            return
        for name, node_spec in NODES.items():
            self.see(node_spec)
            for gpu in range(node_spec.gpu_count):
                self.faults.discard((name, gpu))
                self.tell(
                    GpuHealthChanged(
                        at_s=self.harness.now_s, name=NodeName(name), gpu_index=gpu, fault=""
                    )
                )
        for _ in range(len(self.jobs) + 2):
            self.check(self.harness.advance(self.harness.now_s + 400.0))
            for job_id in self.in_state(JobState.PLACING):
                self.start(job_id, self.claims[job_id])
            for job_id in self.in_state(JobState.RUNNING):
                self.claims.pop(job_id)
                self.jobs.pop(job_id, None)
                self.check(self.harness.end(job_id))
        for job_id, spec in self.jobs.items():
            decided = self.harness.engine.record(JobId(job_id)).placement is not None
            assert self.harness.state(job_id) is JobState.RELEASED or (decided and not spec.binding)

    # -- the model -------------------------------------------------------------------------

    def in_state(self, state: JobState) -> list[str]:
        records = self.harness.engine.known_jobs()
        return [str(job_id) for job_id, record in records if record.state is state]

    def see(self, spec: NodeSpec) -> None:
        self.nodes[spec.name] = spec
        self.tell(NodeSeen(at_s=self.harness.now_s, node=spec))

    def queue(self, spec: JobSpec) -> None:
        self.jobs[spec.job_id] = spec
        self.check(self.harness.queue(spec))

    def start(self, job_id: str, shares: tuple[NodeShare, ...]) -> None:
        self.claims[job_id] = shares
        self.check(self.harness.start_elsewhere(job_id, *shares))

    def tell(self, event: Event) -> None:
        self.check(self.harness.feed(event))

    def check(self, actions: tuple[Action, ...]) -> None:
        for action in actions:
            match action:
                case Place():
                    spec = self.jobs[action.job_id]
                    self.check_placement(spec, action)
                    if spec.binding:
                        self.claims[action.job_id] = shares_of(action.placement)
                case Wait() | ReleaseToSlurm():
                    self.claims.pop(action.job_id, None)  # Slurm did not start it in time

    def check_placement(self, spec: JobSpec, action: Place) -> None:
        placement = action.placement
        assert placement.shape in spec.shapes
        assert len(set(placement.nodes)) == placement.shape.node_count
        assert len(set(placement.gpu_indices)) == placement.shape.gpus_per_node
        assert set(spec.required_nodes) <= set(placement.nodes)
        assert not set(spec.excluded_nodes) & set(placement.nodes)
        for name in placement.nodes:
            self.check_node(spec, placement, name)
        if placement.shape.node_count == 1:
            links, free = LINKS[placement.nodes[0]], self.offered_gpus(placement)
            optimum = best_score(links, free, placement.shape.gpus_per_node)
            stock = sorted(free)[: placement.shape.gpus_per_node]
            score = action.decision.get().link_scores[0]
            # The links of a node that came back are unknown until its probe reports them again.
            if self.harness.engine.cluster.table(self.row(placement.nodes[0])).links == links:
                assert score == links.score(placement.gpu_indices) == optimum
                assert score >= links.score(stock)

    def check_node(self, spec: JobSpec, placement: Placement, name: NodeName) -> None:
        slurm = self.nodes[name]
        assert slurm.usable
        assert spec.partition in slurm.partitions
        assert set(spec.features) <= set(slurm.features)
        assert set(placement.gpu_indices) <= set(self.free_gpus(name))
        held = [part for parts in self.claims.values() for part in parts if part.node == name]
        cpus = sum(part.cpu_count for part in held) + placement.shape.cpus_per_node
        memory = sum(part.memory_bytes for part in held) + placement.shape.memory_per_node_bytes
        assert cpus <= slurm.cpu_count
        assert memory <= slurm.memory_bytes

    def free_gpus(self, name: str) -> list[int]:
        taken = {
            gpu
            for parts in self.claims.values()
            for part in parts
            if part.node == name
            for gpu in part.gpu_indices
        }
        every = range(NODES[name].gpu_count)
        return [gpu for gpu in every if gpu not in taken and (name, gpu) not in self.faults]

    def offered_gpus(self, placement: Placement) -> list[int]:
        """Return the free GPUs of a node that a job was offered: those without foreign memory."""
        (name,) = placement.nodes
        free = self.free_gpus(name)
        clean = [gpu for gpu in free if (name, gpu) not in self.foreign]
        if any((name, gpu) in self.foreign for gpu in placement.gpu_indices):
            assert len(clean) < placement.shape.gpus_per_node
            return free
        return clean

    def row(self, name: NodeName) -> int:
        return self.harness.engine.cluster.index_of[name]


def best_score(links: LinkMatrix, free: list[int], size: int) -> int:
    return max(links.score(chosen) for chosen in combinations(free, size))


TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, derandomize=True
)
