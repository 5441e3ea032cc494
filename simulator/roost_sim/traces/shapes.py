"""Shapes of a trace's jobs: Slurm gives a job the same number of GPUs on every node.

Traces have the GPUs of a job, but seldom its number of nodes. A job that fits on one node gets the
shape of one node. A larger job gets the fewest nodes among which its GPUs divide evenly, up to
twice the fewest that could hold it. If they divide evenly among none of these, or even shapes do
not fit, the GPUs a node are rounded up and the job holds a few GPUs more than it uses.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

from roost_engine.domain.model import JobId, Shape

ShapeRule: TypeAlias = Callable[[int, int], tuple[Shape, ...]]  # GPUs: of the job, of a whole node
JobShapeRule: TypeAlias = Callable[[JobId, int, int], tuple[Shape, ...]]


@cache
def tightest_shapes(gpu_count: int, gpus_per_node: int) -> tuple[Shape, ...]:
    """Return the even shape on the fewest nodes, and the rounded one if it has fewer nodes.

    Args:
        gpu_count: of the job, at least 1.
        gpus_per_node: of the largest node.
    """
    fewest = -(-gpu_count // gpus_per_node)
    even = (nodes for nodes in range(fewest, 2 * fewest + 1) if gpu_count % nodes == 0)
    nodes = dict.fromkeys((next(even, fewest), fewest))
    return tuple(_shape(count, -(-gpu_count // count)) for count in nodes)


@cache
def every_even_shape(gpu_count: int, gpus_per_node: int) -> tuple[Shape, ...]:
    """Return the tightest shapes, then all wider even ones down to one GPU a node.

    Args:
        gpu_count: of the job, at least 1.
        gpus_per_node: of the largest node.
    """
    tightest = tightest_shapes(gpu_count, gpus_per_node)
    wider = range(tightest[0].node_count + 1, gpu_count + 1)
    even = (_shape(nodes, gpu_count // nodes) for nodes in wider if gpu_count % nodes == 0)
    return (*tightest, *even)


def _shape(node_count: int, gpus_per_node: int) -> Shape:
    # One CPU a GPU: no public trace has the CPUs that its jobs requested.
    return Shape(node_count=node_count, gpus_per_node=gpus_per_node, cpus_per_node=gpus_per_node)
