"""A small cluster and a short trace for tests of environments and agents."""

from roost_engine.testing.builders import nvswitch
from roost_sim.clusters.cluster_spec import ClusterSpec, NetworkTier, NodeKind, TierSpec, make_racks
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.generator import generate
from roost_sim.traces.trace import Trace
from roost_train.environments.episodes import Episodes

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
