"""A daemon's state with nodes, probes and jobs in it, without Slurm: for tests of what shows it."""

import random
from dataclasses import dataclass

from roost_engine.domain.actions import Place
from roost_engine.domain.events import Event, JobEnded, JobQueued, JobStarted, NodeSeen
from roost_engine.domain.model import JobId, NodeName
from roost_engine.domain.topology import LinkMatrix, parse_topo_matrix
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import shares_of
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import job, node
from roost_probe.testing.matrix import sample_text
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.config.config import Config, Mode, Partition
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard
from roostd.telemetry.probe_messages import read_hello

GIB = 1 << 30
GPU_COUNT = 8
KINDS = ("bridges8", "cube8", "nvswitch8", "pcie8")
_JOB_SIZES = ((1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (2, 1), (4, 1), (3, 1))  # GPUs, nodes
_LEFT_FREE_FRAC = 0.12


@dataclass
class StillClock:
    """Engine time that stands still until it is set; the epoch is that of `zero_epoch_s`."""

    at_s: float = 100.0
    zero_epoch_s: float = 1_800_000_000.0

    def now_s(self) -> float:
        """Return engine time."""
        return self.at_s

    def to_engine_s(self, epoch_s: float) -> float:
        """Return engine time of a time since the epoch."""
        return epoch_s - self.zero_epoch_s

    def to_epoch_s(self, engine_s: float) -> float:
        """Return the time since the epoch of engine time."""
        return engine_s + self.zero_epoch_s

    def follow_wall(self) -> float:
        """Return the seconds by which the wall clock was set: none."""
        return 0.0


def busy_state(node_count: int, seed: int = 1) -> DaemonState:
    """Return the state of a cluster whose GPUs are mostly in use, with a queue.

    Args:
        node_count: nodes of 8 GPUs, of four kinds, 16 in a rack at most.
        seed: of what is drawn; the same seed gives the same state.
    """
    clock, rng = StillClock(), random.Random(seed)
    engine = Engine(EngineConfig(), Policies())
    board = ProbeBoard(clock.now_s, lambda event: _ignored(engine, event))
    state = DaemonState(
        version="0.1.0",
        clock=clock,
        config=Config(
            mode=Mode.SHADOW, partitions={"main": Partition(mode=Mode.ENFORCE)}, cluster="alpha"
        ),
        engine=engine,
        board=board,
        slurm_version="24.11.5",
        slurm_fault="",
    )
    names = [NodeName(f"gpu{number:04}") for number in range(1, node_count + 1)]
    per_rack = max(min(16, -(-node_count // 2)), 1)
    for number, name in enumerate(names):
        _add_node(state, name, f"rack-{number // per_rack + 1}", number // per_rack % len(KINDS))
    _add_jobs(state, rng)
    for number, name in enumerate(names):
        _sample(state, name, rng)
        if number % 97 == 23:
            _close(state, name, number // per_rack)
    return state


def _ignored(engine: Engine, event: Event) -> None:
    engine.step(event)


def _add_node(state: DaemonState, name: NodeName, rack: str, kind: int) -> None:
    spec = node(name, GPU_COUNT, rack=rack, partitions=("main", "debug"))
    state.engine.step(NodeSeen(at_s=state.clock.now_s(), node=spec))
    state.node_states[name] = "mixed"
    for event in state.board.introduce(name):
        state.engine.step(event)
    links = parse_topo_matrix(sample_text(KINDS[kind]), KINDS[kind])
    state.board.apply_hello(read_hello(_hello(name, links)), object())


def _close(state: DaemonState, name: NodeName, rack: int) -> None:
    spec = node(name, GPU_COUNT, rack=f"rack-{rack + 1}", partitions=("main",), usable=False)
    state.engine.step(NodeSeen(at_s=state.clock.now_s(), node=spec))
    state.node_states[name] = "mixed+drain"


def _hello(name: str, links: LinkMatrix) -> pb.Hello:
    message = pb.Hello(node=name, schema_version=1, probe_version="0.1.0", session_id="s1")
    for index in range(links.gpu_count):
        message.gpus.add(
            index=index,
            uuid=f"GPU-{name}-{index}",
            pci_bus_id=f"00000000:{index:02X}:00.0",
            model="NVIDIA A100-SXM4-80GB",
            memory_bytes=80 * GIB,
            minor_number=index,
        )
    for a, row in enumerate(links.links):
        for b, link in enumerate(row):
            if link is not None and a < b:
                level = pb.AncestorLevel.ValueType(int(link.level))
                message.links.add(a=a, b=b, level=level, nvlink_count=link.nvlink_count)
    return message


def _add_jobs(state: DaemonState, rng: random.Random) -> None:
    """Fill the cluster by the engine's own choices, end some jobs, and leave others waiting."""
    engine = state.engine
    total, number = engine.cluster.free_count(), 4_711
    running = list[JobId]()
    while engine.cluster.free_count() > _LEFT_FREE_FRAC * total:
        gpus, nodes = rng.choice(_JOB_SIZES)
        number, now_s = number + 1, _later(state, rng, 4.0)
        before = engine.cluster.free_count()
        asked = job(str(number), gpus=gpus, nodes=nodes, user_id=1_000 + number % 40)
        actions = engine.step(JobQueued(at_s=now_s, job=asked))
        for action in actions:
            if isinstance(action, Place):
                action.decision.get()  # as roostd does for the journal
                shares = shares_of(action.placement)
                engine.step(JobStarted(at_s=now_s, job_id=action.job_id, shares=shares))
                running.append(action.job_id)
        if engine.cluster.free_count() == before:
            break
    for job_id in rng.sample(running, len(running) // 10):
        engine.step(JobEnded(at_s=state.clock.now_s(), job_id=job_id))
    node_count = len(engine.cluster)
    for gpus, nodes in ((8, node_count), (8, -(-node_count // 2)), (4, node_count)):
        number, now_s = number + 1, _later(state, rng, 400.0)
        asked = job(str(number), gpus=gpus, nodes=nodes, user_id=1_000 + number % 40)
        engine.step(JobQueued(at_s=now_s, job=asked))
    _later(state, rng, 400.0)


def _later(state: DaemonState, rng: random.Random, most_s: float) -> float:
    """Let up to so many seconds pass; return the time then."""
    assert isinstance(state.clock, StillClock)
    state.clock.at_s += most_s * rng.random()
    return state.clock.at_s


def _sample(state: DaemonState, name: NodeName, rng: random.Random) -> None:
    cluster, report = state.engine.cluster, state.board.report(name)
    if report is None:
        return
    free = int(cluster.free_mask[cluster.index_of[name]])
    busy = [not free >> gpu & 1 for gpu in range(GPU_COUNT)]
    loads = [rng.choice((0.35, 0.7, 0.9, 0.97, 1.0)) if one else 0.0 for one in busy]
    message = pb.Sample(sequence=1, gpu_count=GPU_COUNT)
    mask = (1 << GPU_COUNT) - 1
    columns = {
        "sm_frac": loads,
        "temperature_c": [32.0 + 45.0 * load + rng.random() * 5.0 for load in loads],
    }
    for column, values in columns.items():
        getattr(message, column).CopyFrom(pb.FloatColumn(present_mask=mask, values=values))
    used = [int((0.1 + 0.85 * rng.random()) * 80 * GIB) if one else 400 << 20 for one in busy]
    message.memory_used_bytes.CopyFrom(pb.UintColumn(present_mask=mask, values=used))
    state.board.apply_sample(report, message, is_checked=True)
