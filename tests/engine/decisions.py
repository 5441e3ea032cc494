"""Digests of the engine's actions in many small simulations, to compare with a golden file.

A change of the engine's structure must not change a decision. So each run below is hashed action by
action, with the candidates, features, scores and reasons of every placement. Numbers are rounded,
so that a logarithm whose last bit differs on another processor does not change a digest.

Run as a program this module prints the digests as JSON: `python -m tests.engine.decisions`.
"""

import hashlib
import json
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.actions import (
    Action,
    Decision,
    PinStanding,
    Place,
    PolicyFailed,
    Preempt,
    ReleaseToSlurm,
    Unpin,
    Wait,
    WakeAt,
)
from roost_engine.domain.events import Event, GpuHealthChanged
from roost_engine.domain.model import Placement
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import load_seen
from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.cluster_spec import (
    ClusterSpec,
    NetworkTier,
    NodeKind,
    SimNode,
    TierSpec,
    make_racks,
)
from roost_sim.clusters.link_shapes import SHAPES
from roost_sim.clusters.presets import preset
from roost_sim.runs import simulation
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.generator import generate
from roost_sim.traces.trace import Trace
from roost_sim.worlds.fidelity import DEFAULT_FIDELITY
from roost_sim.worlds.world_spec import WorldSpec

POLICIES = (
    "default",
    "default-2026-11-28",
    "default-no-preemption-2026-11-28",
    "roost",
    "roost-learned",
    "roost-makespan",
    "roost-no-preemption",
    "roost-2026-11",
    "default-2026-11-28b",
    "roost-2026-11-28",
    "roost-2026-11-28b",
    "roost-learned-2026-11-28",
    "roost-learned-2026-11-28b",
    "roost-learned-2026-11-28c",
    "roost-makespan-2026-11-28b",
    "roost-no-preemption-2026-11-28c",
    "roost-makespan-2026-11-28",
    "roost-no-preemption-2026-11",
    "roost-no-preemption-2026-11-28",
    "roost-no-preemption-2026-11-28b",
    "fifo",
    "slurm",
    "slurm-22.05",
    "slurm-switches",
    "fifo-easy",
    "fifo-block",
    "srtf",
    "las-strict",
    "tiresias",
    "tiresias-scattered",
    "gandiva-strict",
    "gittins-2d",
    "dally",
    "lif",
    "topdrl-fcfs-knn",
)
TRACES = ("mixed nodes, no load", "one kind of node, live load", "pairs, impatient, faults")
_TELEMETRY_EVERY = 5  # events of the trace, between two reports of load


def main() -> int:
    found = {
        f"{trace}: {policy}": digest_of(trace, policy) for trace in TRACES for policy in POLICIES
    }
    print(json.dumps(found, indent=1))
    return 0


def digest_of(trace: str, policy: str) -> dict[str, object]:
    """Simulate one policy on one trace; return the counts of actions by type, and their digest."""
    telemetry = Random(7) if trace != TRACES[0] else None
    recorded, engines = list[Action](), list[weakref.ref[Engine]]()

    class RecordingEngine(Engine):
        """Gets load and broken GPUs between the events of the trace; records its actions."""

        def __init__(self, config: EngineConfig, policies: Policies) -> None:
            super().__init__(config, policies)
            self._event_count = 0
            engines.append(weakref.ref(self))

        def step(self, event: Event) -> tuple[Action, ...]:
            actions = super().step(event)
            self._event_count += 1
            if telemetry is not None and self._event_count % _TELEMETRY_EVERY == 0:
                for told in _telemetry(self, telemetry, event.at_s, has_faults=trace == TRACES[2]):
                    actions += super().step(told)
            recorded.extend(actions)
            return actions

    names = vars(simulation)
    before, names["Engine"] = names["Engine"], RecordingEngine
    try:
        simulate(_run(trace, policy))
    finally:
        names["Engine"] = before
    # roostd replaces engines, and what is in no cycle is freed without a scan of all jobs.
    assert [engine() for engine in engines] == [None], "the engine is in a reference cycle"
    counts = Counter(type(action).__name__ for action in recorded)
    sha256 = hashlib.sha256()
    for action in recorded:
        sha256.update(repr(_spelled(action)).encode())
    return {**dict(sorted(counts.items())), "sha256": sha256.hexdigest()[:24]}


def _run(trace: str, policy: str) -> Run:
    cluster, jobs, config = _setting(trace)
    jobs = jobs.fitting(cluster.gpu_count).at_load(1.25, cluster.gpu_count)
    found = find_policy(policy)
    return Run(
        trace=jobs,
        cluster=cluster,
        policy=found,
        seed=3,
        start_delay_s=1.0,
        # As when the digests were recorded: all GPUs of a node are equally close.
        world=WorldSpec(fidelity=replace(DEFAULT_FIDELITY, has_links=False)),
        engine_config=config,
    )


def _setting(trace: str) -> tuple[ClusterSpec, Trace, EngineConfig]:
    if trace == TRACES[0]:
        return _mixed(), generate(HELIOS, 320, 11, max_gpu_count=32), EngineConfig()
    if trace == TRACES[1]:
        return preset("dally-128"), generate(HELIOS, 360, 21, max_gpu_count=64), EngineConfig()
    jobs = generate(HELIOS, 260, 13, max_gpu_count=24)
    return preset("small"), jobs, EngineConfig(patience_s=60.0, window_count=40)


def _mixed() -> ClusterSpec:
    kinds = [NodeKind(name=name, links=SHAPES[name], gpu_model=name) for name in _KINDS]
    nodes = [node for number, kind in enumerate(kinds) for node in _racks_of(kind, number)]
    wide = TierSpec(bandwidth_bytes_per_s=20e9, latency_s=3e-6)
    narrow = TierSpec(bandwidth_bytes_per_s=6e9, latency_s=5e-6, oversubscription=3.0)
    tiers = {
        NetworkTier.NODE: wide,
        NetworkTier.RACK: wide,
        NetworkTier.POD: narrow,
        NetworkTier.CORE: narrow,
    }
    return ClusterSpec(name="mixed", source="made up", nodes=tuple(nodes), tiers=tiers)


_KINDS = ("bridges8", "pcie8", "a100x8", "pcie4")


def _racks_of(kind: NodeKind, number: int) -> tuple[SimNode, ...]:
    """Return three nodes of a kind in a rack of its own, and two in a rack that all kinds share."""
    return make_racks(kind, {f"r{number}": 3, "shared": 2}, first=10 * number)


def _telemetry(engine: Engine, random: Random, at_s: float, *, has_faults: bool) -> Iterator[Event]:
    """Yield the load of one node, sometimes NaN, and rarely a GPU that breaks or works again."""
    names = engine.cluster.names
    if not names:
        return
    row = random.randrange(len(names))
    count = int(engine.cluster.gpu_count[row])
    if has_faults and random.random() < 0.1:
        fault = random.choice(["", "lost"])
        gpu_index = random.randrange(max(count, 1))
        yield GpuHealthChanged(at_s=at_s, name=names[row], gpu_index=gpu_index, fault=fault)
    known = float("nan") if random.random() < 0.1 else 1.0
    load = [
        [random.random() * scale * known for scale in (1.0, 1.0, 5e10, 4e11)] for _ in range(count)
    ]
    if count:
        loads = np.array(load, dtype=np.float32)
        yield load_seen(at_s=at_s, name=names[row], load=loads)


def _spelled(action: Action) -> tuple[object, ...]:
    """Return an action as plain values, so that names of types and fields do not count."""
    match action:
        case Place():
            told = action.decision.get()
            return (
                "place",
                action.job_id,
                _place(action.placement),
                f"{told.at_s:.6g}",
                [_place(candidate) for candidate in told.candidates],
                _rounded(told.features, 1e4),
                _rounded_scores(told),
                told.link_scores.tolist(),
                told.best_link_score,
                told.exclusions,
                [(share.node, share.gpu_indices) for share in told.free_before],
                told.policy,
                told.fallback_reason,
            )
        case Wait():
            until = None if action.until_s is None else f"{action.until_s:.6g}"
            return "wait", action.job_id, action.reason, until, action.exclusions.get()
        case Preempt():
            return "preempt", action.job_id, action.reason, action.for_job
        case ReleaseToSlurm():
            return "let go", action.job_id, action.reason
        case WakeAt():
            return "wake", f"{action.at_s:.6g}"
        case PolicyFailed():
            return "failed", action.slot, action.policy, action.reason
        case PinStanding():
            return "pin", action.job_id, _place(action.placement), f"{action.start_s:.6g}"
        case Unpin():
            return "unpin", action.job_id


def _rounded_scores(told: Decision) -> object:
    """Return the rounded scores of the heuristic; those of a model in float32 differ by processor.

    What the model chose is in the digest in any case.
    """
    return [] if told.policy.startswith("onnx:") else _rounded(told.scores, 1e3)


def _rounded(values: NDArray[np.float32], steps: float) -> object:
    """Return values rounded to whole steps.

    The shift keeps sums of eighths and tenths away from the boundary between two steps.
    """
    return np.floor(values.astype(np.float64) * steps + 0.3713).astype(np.int64).tolist()


def _place(placement: Placement) -> tuple[object, ...]:
    return tuple(placement.by_node()), placement.shape.node_count, placement.shape.gpus_per_node


if __name__ == "__main__":
    sys.exit(main())
