"""Every placement rule, on clusters that change at random: only what is free and allowed is
proposed, and who could be placed after a release is always recalled."""

import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import node_set
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import shares_of
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import could_ever_fit
from roost_engine.policies.heuristics import PriorityOrder
from roost_engine.policies.protocols import CandidatePolicy
from roost_engine.policies.slots import FaultLog, OrderSlot
from roost_engine.queue.job_queue import JobQueue
from roost_engine.testing.builders import bridges, job, node, topology, waiting
from roost_sim.catalogue.placements import PLACEMENTS
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.worlds.speed.profiles import Profile

GIB = 1 << 30
NODES = tuple(
    node(
        f"n{number}",
        4 if number == 5 else 8,
        cpu_count=10 if number == 1 else 64,
        memory_bytes=64 * GIB,
        partitions=("main", "other") if number % 2 else ("main",),
        rack=f"r{number // 3}",
        features=("fast",) if number < 4 else (),
    )
    for number in range(7)
)


def profile(family: str) -> Profile:
    """Of a family; how fast it is plays no part here."""
    return Profile(
        name=family, family=family, source="", compute_s=1.0, local=0.0, spread=0.0, spread_log=0.0
    )


@dataclass
class Site:
    """A cluster, a rule, and the jobs that hold something or found nothing."""

    name: str
    cluster: Cluster = field(default_factory=Cluster)
    running: list[JobId] = field(default_factory=list)
    waiting: dict[JobId, JobSpec] = field(default_factory=dict)
    queue: JobQueue = field(
        default_factory=lambda: JobQueue(OrderSlot(PriorityOrder(), FaultLog()))
    )
    log: list[str] = field(default_factory=list)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        families = {JobId(str(n)): profile("vgg16" if n % 2 else "resnet50") for n in range(99)}
        work_s = {job_id: 10.0 * int(job_id) for job_id in families}
        self.information = PolicyInformation(work_s=work_s, seed=3, profile_of=families)
        part = PLACEMENTS[self.name]
        self.policy: CandidatePolicy = part.candidates(self.information)
        self.shapes_by_job = part.shapes_by_job and part.shapes_by_job(self.information)
        for spec in NODES:
            self.cluster.apply_node(spec)
            links = bridges(spec.gpu_count)
            self.cluster.apply_topology(spec.name, links, topology(spec.name, links).gpu_uuids)

    def spec(self, number: int, asked: "Asked") -> JobSpec:
        """A job of this rule's shapes."""
        job_id, shapes = JobId(str(number)), PLACEMENTS[self.name].shapes(asked.gpu_count, 8)
        if self.shapes_by_job:
            shapes = self.shapes_by_job(job_id, asked.gpu_count, 8)
        heavy = (
            replace(
                shape,
                cpus_per_node=shape.gpus_per_node * asked.cpus_each,
                memory_per_node_bytes=shape.gpus_per_node * asked.gib_each * GIB,
            )
            for shape in shapes
        )
        return job(
            job_id,
            *heavy,
            partition=asked.partition,
            features=asked.features,
            required=[NODES[at].name for at in asked.required],
            excluded=[NODES[at].name for at in asked.excluded],
        )

    def propose(self, spec: JobSpec, reserved_nodes: tuple[int, ...]) -> Candidates:
        """Ask the rule, and check its answer."""
        reserved = node_set(reserved_nodes)
        found = self.policy.propose(self.cluster, spec, reserved, self.now_s)
        for position in range(len(found)):
            self._check(found, position, spec, reserved_nodes)
        self.log.append(f"{spec.job_id}: {found.placement(0) if len(found) else None}")
        return found

    def start(self, spec: JobSpec, found: Candidates) -> None:
        """Let a job hold its first candidate."""
        self.cluster.hold(spec.job_id, shares_of(found.placement(0)))
        self.running.append(spec.job_id)

    def submit(self, spec: JobSpec) -> None:
        """Let a job wait."""
        self.queue.add(waiting(spec, self.now_s), self.now_s)
        self.waiting[spec.job_id] = spec

    def serve(self, reserved_nodes: tuple[int, ...] = ()) -> None:
        """Try the jobs that the engine would try; a job that is not tried must not fit."""
        reserved = node_set(reserved_nodes)
        if self.queue.begin_pass(self.cluster, self.policy, self.now_s):
            for group, job_id in self.queue.offers(-inf):
                if group.is_blocked(reserved):
                    continue
                group.forget()
                spec = self.waiting[job_id]
                found = self.propose(spec, reserved_nodes)
                if len(found):
                    self.queue.remove(job_id)
                    del self.waiting[job_id]
                    self.start(spec, found)
                else:
                    group.note_failure(found)
        self.queue.check_invariants()
        for spec in self.waiting.values():
            assert not len(self.propose(spec, reserved_nodes)), f"{spec.job_id} was not recalled"

    def _check(
        self, found: Candidates, position: int, spec: JobSpec, reserved_nodes: tuple[int, ...]
    ) -> None:
        placement = found.placement(position)
        shares = shares_of(placement)
        assert self.cluster.has_free(shares)
        assert found.shape in spec.shapes
        assert sum(len(share.gpu_indices) for share in shares) == found.shape.gpu_count
        assert list(placement.nodes) == sorted(set(placement.nodes))
        for share in shares:
            seen = NODES[self.cluster.index_of[share.node]]
            assert list(share.gpu_indices) == sorted(set(share.gpu_indices))
            assert spec.partition in seen.partitions
            assert set(spec.features) <= set(seen.features)
            assert share.node not in spec.excluded_nodes
            assert self.cluster.index_of[share.node] not in reserved_nodes
            assert share.gpu_indices
        assert set(spec.required_nodes) <= set(placement.nodes)


@dataclass(frozen=True)
class Asked:
    """What a job asks for."""

    gpu_count: int
    cpus_each: int
    gib_each: int
    partition: str
    features: tuple[str, ...]
    required: tuple[int, ...]
    excluded: tuple[int, ...]


AT_NODE = st.integers(0, len(NODES) - 1)
ASKED = st.builds(
    Asked,
    gpu_count=st.sampled_from((1, 1, 2, 3, 4, 5, 8, 9, 12, 16, 17, 24)),
    cpus_each=st.sampled_from((0, 1, 3)),
    gib_each=st.sampled_from((0, 0, 9)),
    partition=st.sampled_from(("main", "main", "other")),
    features=st.sampled_from(((), (), ("fast",))),
    required=st.one_of(st.just(()), st.just(()), st.tuples(AT_NODE)),
    excluded=st.one_of(st.just(()), st.just(()), st.tuples(AT_NODE)),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("job"), ASKED, st.lists(AT_NODE, max_size=2).map(tuple)),
        st.tuples(st.just("end"), st.integers(0, 20), st.none()),
        st.tuples(st.just("usable"), AT_NODE, st.booleans()),
        st.tuples(st.just("fault"), AT_NODE, st.booleans()),
    ),
    min_size=1,
    max_size=25,
)


def play(name: str, steps: list[tuple[str, object, object]]) -> list[str]:
    """Let things happen to a site; returns what the rule answered."""
    site = Site(name)
    for number, (what, first, second) in enumerate(steps):
        site.now_s = 10.0 * number
        if what == "job":
            assert isinstance(first, Asked)
            assert isinstance(second, tuple)
            site.submit(site.spec(number, first))
            site.serve(second)
            site.queue.postpone()  # others are served first or not, from pass to pass
        elif what == "end":
            assert isinstance(first, int)
            if site.running:
                site.cluster.release(site.running.pop(first % len(site.running)))
        elif what == "usable":
            assert isinstance(first, int)
            site.cluster.apply_node(replace(NODES[first], usable=bool(second)))
        else:
            assert isinstance(first, int)
            site.cluster.set_fault(NODES[first].name, 2, "Xid 79" if second else "")
        site.serve()
    site.cluster.check_invariants()
    return site.log


@pytest.mark.parametrize("name", PLACEMENTS)
@given(steps=STEPS)
@settings(max_examples=15, deadline=None)
def test_only_free_gpus_are_proposed_and_every_job_that_fits_is_recalled(
    name: str, steps: list[tuple[str, object, object]]
) -> None:
    assert play(name, steps) == play(name, steps)


@pytest.mark.parametrize("name", PLACEMENTS)
def test_an_idle_cluster_takes_what_could_ever_fit(name: str) -> None:
    plain = Asked(0, 1, 0, "main", (), (), ())
    for gpu_count in (*range(1, 20), 24, 31, 40):
        site = Site(name)
        spec = site.spec(gpu_count, replace(plain, gpu_count=gpu_count))
        assert could_ever_fit(site.cluster, spec)
        assert len(site.propose(spec, ())), f"{gpu_count} GPUs"


_PRINT = """
from tests.simulator.policies.placement.test_placement_properties import (
    NODES, Asked, PLACEMENTS, play
)
asked = [Asked(n, 1, 0, "main", (), (), ()) for n in (3, 8, 1, 12, 5, 2, 9, 4)]
steps = [("job", each, ()) for each in asked] + [("end", 1, None), ("job", asked[1], (2,))]
for name in PLACEMENTS:
    print(name, play(name, steps))
"""


def test_placements_do_not_depend_on_the_hash_seed() -> None:
    outputs = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", _PRINT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
            timeout=60,
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].count("\n") == len(PLACEMENTS)
