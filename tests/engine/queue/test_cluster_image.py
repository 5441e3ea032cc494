"""The image of the cluster: what was kept from the look before does not show."""

import numpy as np
import pytest
from numpy.typing import NDArray

from roost_engine.domain.events import NodeSeen
from roost_engine.engine import Engine
from roost_engine.job_record import JobRecord
from roost_engine.queue.cluster_image import ClusterImage, gpu_count_of
from roost_engine.queue.selector_columns import IMAGE_GPU_COUNT, IMAGE_NODE_COUNT
from roost_engine.testing.builders import EngineHarness, job, node

PIXELS = IMAGE_NODE_COUNT * IMAGE_GPU_COUNT


def expected_s(record: JobRecord, at_s: float) -> float:
    return 600.0


def drawn(image: ClusterImage, engine: Engine, at_s: float) -> NDArray[np.float32]:
    out = np.full(2 * PIXELS, np.nan, dtype=np.float32)
    image.draw(engine.queue_view(at_s), out)
    return out


def held_frac(picture: NDArray[np.float32]) -> float:
    return float(picture[:PIXELS].mean())


def test_jobs_and_nodes_that_come_and_go_are_seen() -> None:
    harness = EngineHarness([node("n0"), node("n1", gpu_count=4)])
    image, engine = ClusterImage(expected_s), harness.engine
    assert held_frac(drawn(image, engine, 0.0)) == 0.0
    harness.run(job("1", gpus=8))
    assert held_frac(drawn(image, engine, 0.0)) == 0.5
    harness.end("1")
    assert held_frac(drawn(image, engine, 1.0)) == 0.0
    engine.step(NodeSeen(at_s=1.0, node=node("n1", gpu_count=4, usable=False)))
    assert held_frac(drawn(image, engine, 1.0)) == 0.5
    engine.step(NodeSeen(at_s=1.0, node=node("n2")))
    engine.step(NodeSeen(at_s=1.0, node=node("n3")))
    assert held_frac(drawn(image, engine, 1.0)) == 0.25
    assert gpu_count_of(engine.cluster) == 28


@pytest.mark.parametrize("node_count", [1, 100])
def test_time_passes_where_nothing_else_changes(node_count: int) -> None:
    harness = EngineHarness([node(f"n{number}") for number in range(node_count)])
    harness.run(*(job(str(number), gpus=8) for number in range(node_count)))
    image = ClusterImage(expected_s)
    left = [drawn(image, harness.engine, at_s)[PIXELS:].max() for at_s in (0.0, 300.0, 3_600.0)]
    # Five minutes of ten are over; at last it is 50 minutes late.
    wanted = [np.log1p(seconds / 60.0) / 8.0 for seconds in (600.0, 300.0, 1_500.0)]
    assert np.allclose(left, wanted)


def test_a_cluster_without_nodes_is_empty() -> None:
    assert not drawn(ClusterImage(expected_s), EngineHarness([]).engine, 0.0).any()
