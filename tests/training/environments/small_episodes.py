"""A small cluster and a short trace for tests of environments and agents."""

from dataclasses import replace
from typing import Any

from roost_engine.testing.builders import nvswitch
from roost_sim.clusters.cluster_spec import ClusterSpec, NetworkTier, NodeKind, TierSpec, make_racks
from roost_sim.runs.simulation import Run
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.generator import generate
from roost_sim.traces.trace import Trace, make_trace
from roost_sim.worlds.world_spec import Speed, WorldSpec
from roost_train.environments.episodes import Episodes
from roost_train.environments.slot_run import Slot

GPUS_PER_NODE = 4


def cluster(node_count: int = 2) -> ClusterSpec:
    kind = NodeKind(name="four", links=nvswitch(GPUS_PER_NODE), cpu_count=64)
    tier = TierSpec(bandwidth_bytes_per_s=25e9)
    return ClusterSpec(
        name="test",
        source="made up",
        nodes=make_racks(kind, {"r0": node_count}),
        tiers=dict.fromkeys(NetworkTier, tier),
    )


def trace(job_count: int = 200) -> Trace:
    return generate(HELIOS, job_count, seed=3).fitting(2 * GPUS_PER_NODE)


def episodes(job_count: int = 40, warm_count: int = 0, **changes: object) -> Episodes:
    base = {"trace": trace(), "clusters": (cluster(),), "loads": (1.1,)}
    return Episodes(job_count=job_count, warm_count=warm_count, **(base | changes))  # type: ignore[arg-type]


class OneTrace(Episodes):
    """Every episode has all jobs of the trace, at the times that the trace has."""

    def run(self, seed: int) -> Run:
        return replace(super().run(seed), trace=self.trace)


def racks(nodes_by_rack: dict[str, int]) -> ClusterSpec:
    kind = NodeKind(name="four", links=nvswitch(GPUS_PER_NODE), cpu_count=64)
    tiers = dict.fromkeys(NetworkTier, TierSpec(bandwidth_bytes_per_s=100e9))
    for tier in (NetworkTier.POD, NetworkTier.CORE):
        tiers[tier] = TierSpec(bandwidth_bytes_per_s=5e9)
    nodes = make_racks(kind, nodes_by_rack)
    return ClusterSpec(name="racks", source="made up", nodes=nodes, tiers=tiers)


def _one_trace(submit_s: list[float], duration_s: list[float], gpus: list[int]) -> dict[str, Any]:
    jobs = make_trace("made up", submit_s, duration_s, gpus)
    return {
        "trace": jobs,
        "loads": (1.0,),
        "job_count": len(jobs),
        "teacher": "fifo+consolidation+open",
        "warm_count": 0,
    }


def gangs(**changes: object) -> Episodes:
    """Two racks of two nodes, and jobs of two nodes that are slow across racks: wait or not?

    Four jobs take a node each. Two of them end early, in different racks; the third soon after; the
    fourth late. The gang that comes in between may have nodes of two racks now, or a rack soon.
    """
    submit_s, duration_s, gpus = list[float](), list[float](), list[int]()
    for begin_s in (0.0, 40_000.0, 80_000.0, 120_000.0):
        submit_s += [begin_s, begin_s, begin_s, begin_s, begin_s + 20.0]
        duration_s += [10.0, 100.0, 10.0, 20_000.0, 4_000.0]
        gpus += [4, 4, 4, 4, 8]
    base = _one_trace(submit_s, duration_s, gpus) | {
        "clusters": (racks({"r0": 2, "r1": 2}),),
        "world": WorldSpec(speed=Speed.MEASURED),
        "slot": Slot.GATE,
    }
    return OneTrace(**(base | changes))


def halves(**changes: object) -> Episodes:
    """Two nodes: two jobs of half a node come, then one of a whole node: pack or spread?"""
    submit_s, duration_s, gpus = list[float](), list[float](), list[int]()
    for begin_s in (0.0, 3_000.0, 6_000.0):
        submit_s += [begin_s, begin_s + 1.0, begin_s + 2.0]
        duration_s += [1_000.0, 1_000.0, 100.0]
        gpus += [2, 2, 4]
    base = _one_trace(submit_s, duration_s, gpus) | {
        "clusters": (racks({"r0": 2}),),
        "teacher": "fifo+strict+open",
        "slot": Slot.PLACEMENT,
    }
    return OneTrace(**(base | changes))
