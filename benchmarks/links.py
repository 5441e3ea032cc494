"""How far Roost's choice of GPUs, and plain Slurm's, lies from the best there is.

For every free set of a node (a sample of them on nodes of more than 8 GPUs) and every gang of 2 to
8 GPUs: the link score of what Roost's candidates and score policy choose, and of what Slurm takes
since 24.05, against the best of all subsets, found by trying each. Regret is the share of the best
score that was missed: 0 is perfect, 0.5 is half the links.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import _harness
import numpy as np
from numpy.typing import NDArray

import roost_probe.testing
from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.link_table import MAX_GPUS, indices_of
from roost_engine.domain.errors import TopologyError
from roost_engine.domain.model import GpuUuid, JobId, JobSpec, NodeName, NodeShare, NodeSpec, Shape
from roost_engine.domain.topology import LinkMatrix, parse_topo_matrix
from roost_engine.placement.search import find_candidates
from roost_engine.placement.stock_gpus import choose_since_24_05
from roost_engine.policies.protocols import ScorePolicy
from roost_formats.models.score import load_score_policy

SAMPLES = Path(roost_probe.testing.__file__).parent / "topologies"
LARGEST_GANG = 8
WHOLE_GPU_COUNT = 8  # up to here every free set is tried
SAMPLED_SETS = 500
NODE, PARTITION, OTHERS = NodeName("node"), "main", JobId("1")
BUSY_BYTES_PER_S = 20e9


@dataclass(slots=True)
class Regrets:
    """What was missed, case by case."""

    roost: list[float] = field(default_factory=list)
    stock: list[float] = field(default_factory=list)


class LoneNode:
    """A cluster of one node, asked through the candidates and the policy as the engine does."""

    def __init__(self, links: LinkMatrix, policy: ScorePolicy, rng: np.random.Generator) -> None:
        self._policy, self._rng, self._cluster = policy, rng, Cluster()
        self._gpu_count = links.gpu_count
        self._cluster.apply_node(
            NodeSpec(
                name=NODE,
                gpu_count=links.gpu_count,
                cpu_count=links.gpu_count,
                memory_bytes=0,
                partitions=(PARTITION,),
            )
        )
        uuids = tuple(GpuUuid(f"GPU-{index}") for index in range(links.gpu_count))
        if not self._cluster.apply_topology(NODE, links, uuids):
            raise RuntimeError("the cluster did not take the matrix")

    def choose(self, free_mask: int, gpu_count: int) -> tuple[int, ...]:
        """Return the GPUs that Roost places a gang on, among neighbours of random load."""
        busy = indices_of(~free_mask & (1 << self._gpu_count) - 1)
        self._cluster.hold(OTHERS, (NodeShare(NODE, busy),))
        load = self._rng.random((self._gpu_count, 4)) * (1, 1, BUSY_BYTES_PER_S, BUSY_BYTES_PER_S)
        self._cluster.apply_loads((NODE,), load.astype(np.float32)[None])
        shape = Shape(node_count=1, gpus_per_node=gpu_count)
        job = JobSpec(job_id=JobId("2"), user_id=0, partition=PARTITION, shapes=(shape,))
        candidates = find_candidates(self._cluster, job, shape)
        best = int(np.argmax(self._policy.score(candidates.features)))
        return candidates.placement(best).gpu_indices


class Exhaustive:
    """The best link score out of a free set, by trying every subset of it."""

    def __init__(self, links: LinkMatrix, gpu_count: int) -> None:
        subsets = list(combinations(range(links.gpu_count), gpu_count))
        self._masks = np.array([sum(1 << gpu for gpu in subset) for subset in subsets])
        self._scores = np.array([links.score(subset) for subset in subsets])

    def best(self, free_mask: int) -> int:
        """Return the score of the best subset; the set must hold enough GPUs."""
        inside: NDArray[np.bool_] = (self._masks & ~free_mask) == 0
        return int(self._scores[inside].max())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--topology",
        nargs="+",
        type=Path,
        metavar="FILE",
        default=sorted(SAMPLES.glob("*.txt")),
        help="outputs of `nvidia-smi topo -m`; default: the matrices of the fake driver",
    )
    parser.add_argument(
        "--seed", type=_harness.whole_or_0, default=0, help="of samples and loads (default 0)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args(argv)
    try:
        matrices = [read_matrix(path) for path in options.topology]
    except (TopologyError, OSError) as error:
        print(f"links.py: {_one_line(error)}", file=sys.stderr)
        return 2
    policy, fault = load_score_policy("builtin")
    if fault is not None:
        print(f"links.py: {fault}", file=sys.stderr)
        return 2
    rng = np.random.default_rng(options.seed)
    regrets = Regrets()
    for links in matrices:
        judge(links, policy, rng, regrets)
    _harness.report(
        {
            "matrices": len(matrices),
            "cases": len(regrets.roost),
            "mean_regret": _mean(regrets.roost),
            "worst_regret": max(regrets.roost, default=0.0),
            "stock_mean_regret": _mean(regrets.stock),
            "stock_worst_regret": max(regrets.stock, default=0.0),
            "policy": policy.name,
        },
        as_json=options.json,
    )
    return 0


def read_matrix(path: Path) -> LinkMatrix:
    """Read a file, or raise TopologyError or OSError."""
    text = path.read_bytes().decode("utf-8", errors="replace")
    links = parse_topo_matrix(text, str(path))
    if links.gpu_count > MAX_GPUS:
        raise TopologyError(str(path), 1, f"{links.gpu_count} GPUs; Roost knows up to {MAX_GPUS}")
    return links


def judge(
    links: LinkMatrix, policy: ScorePolicy, rng: np.random.Generator, regrets: Regrets
) -> None:
    """Add the regrets of every case of one matrix."""
    node = LoneNode(links, policy, rng)
    largest = min(LARGEST_GANG, links.gpu_count)
    exhaustive = {count: Exhaustive(links, count) for count in range(2, largest + 1)}
    for free_mask in free_sets(links.gpu_count, rng):
        free = indices_of(free_mask)
        for gpu_count in range(2, min(largest, len(free)) + 1):
            best = exhaustive[gpu_count].best(free_mask)
            roost = links.score(node.choose(free_mask, gpu_count))
            stock = links.score(choose_since_24_05(links, free, gpu_count))
            regrets.roost.append((best - roost) / best)
            regrets.stock.append((best - stock) / best)


def free_sets(gpu_count: int, rng: np.random.Generator) -> Iterator[int]:
    """Masks of free GPUs: all that there are, or the idle node and a sample."""
    if gpu_count <= WHOLE_GPU_COUNT:
        yield from range(1 << gpu_count)
        return
    yield (1 << gpu_count) - 1
    for mask in rng.choice(1 << gpu_count, SAMPLED_SETS, replace=False):
        yield int(mask)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _one_line(error: TopologyError | OSError) -> str:
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)


if __name__ == "__main__":
    sys.exit(main())
