"""The shipped model on what the engine really lists, beside the heuristic."""

from pathlib import Path

import numpy as np
import pytest
from numpy.random import Generator

import roost_probe.testing
from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.features import HEURISTIC_WEIGHTS
from roost_engine.cluster.link_table import indices_of
from roost_engine.domain.model import GpuUuid, JobId, JobSpec, NodeName, NodeShare, NodeSpec, Shape
from roost_engine.domain.topology import parse_topo_matrix
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.search import find_candidates
from roost_formats.models.score import BUILTIN_MODEL, OnnxScore, load_onnx_score

SAMPLES = sorted((Path(roost_probe.testing.__file__).parent / "topologies").glob("*.txt"))
NODE_COUNT = 12
LOUDEST = np.array([1.0, 1.0, 60e9, 400e9])


@pytest.fixture(scope="module")
def policy() -> OnnxScore:
    return load_onnx_score(BUILTIN_MODEL, lambda: 0.0)


def busy_cluster(sample: Path, rng: Generator) -> Cluster:
    """Nodes of one kind, half full, each GPU under a load of its own."""
    links, cluster = parse_topo_matrix(sample.read_text(), str(sample)), Cluster()
    count = links.gpu_count
    for number in range(NODE_COUNT):
        name = NodeName(f"n{number:02}")
        spec = NodeSpec(
            name=name,
            gpu_count=count,
            cpu_count=64,
            memory_bytes=1 << 40,
            partitions=("main",),
            rack=f"rack{number // 4}",
        )
        cluster.apply_node(spec)
        cluster.apply_topology(name, links, tuple(GpuUuid(f"{name}-{i}") for i in range(count)))
        cluster.apply_loads((name,), (rng.random((count, 4)) * LOUDEST).astype(np.float32)[None])
        taken = indices_of(int(rng.integers(1 << count) & rng.integers(1 << count)))
        cluster.hold(JobId(f"{number}"), (NodeShare(name, taken),))
    return cluster


def candidates_for(cluster: Cluster, node_count: int, gpu_count: int) -> Candidates:
    shape = Shape(node_count=node_count, gpus_per_node=gpu_count)
    job = JobSpec(job_id=JobId("job"), user_id=0, partition="main", shapes=(shape,))
    return find_candidates(cluster, job, shape)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("node_count", [1, 2])
def test_model_and_heuristic_choose_the_same_place(
    sample: Path, node_count: int, policy: OnnxScore
) -> None:
    rng = np.random.default_rng(11)
    judged = 0
    for _ in range(10):
        cluster = busy_cluster(sample, rng)
        for gpu_count in range(1, 5):
            features = candidates_for(cluster, node_count, gpu_count).features
            if len(features) < 2:
                continue
            exact = (features * HEURISTIC_WEIGHTS.astype(np.float64)).sum(axis=-1)
            assert exact.max() - exact[policy.score(features).argmax()] < 1e-6
            judged += 1
    assert judged >= 10


def test_among_equal_nodes_the_quietest_is_chosen(policy: OnnxScore) -> None:
    sample = next(path for path in SAMPLES if path.stem == "bridges8")
    rng = np.random.default_rng(12)
    for _ in range(20):
        cluster = busy_cluster(sample, rng)
        steps = rng.permutation(NODE_COUNT)
        for number, step in enumerate(steps):
            cluster.release(JobId(f"{number}"))
            load = np.zeros((8, 4), np.float32)
            load[:, 0] = 0.5 + step * 1e-3
            cluster.apply_loads((NodeName(f"n{number:02}"),), load[None])
        candidates = candidates_for(cluster, 1, 2)
        best = int(policy.score(candidates.features).argmax())
        assert candidates.placement(best).nodes == (f"n{int(steps.argmin()):02}",)
