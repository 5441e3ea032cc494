"""roost_engine.scoring.neighbourhood: what sets of GPUs are beside."""

from collections.abc import Mapping

import numpy as np
import pytest
from tests.engine.scoring.graph_cluster import cluster_of, talks

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeShare
from roost_engine.scoring.neighbourhood import Neighbourhood

WIDTH = 2


def vector(means: Mapping[str, float]) -> np.ndarray:
    return np.array([max(means.get("nic", 0.0), means.get("pcie", 0.0)), 1.0], dtype=np.float32)


def nothing(job_id: JobId) -> JobSpec | None:
    return None


def hold(cluster: Cluster, job_id: str, node: int, *gpus: int) -> None:
    cluster.hold(JobId(job_id), [NodeShare(NodeName(f"n0-{node}"), gpus, 1, 0)])


def around(cluster: Cluster) -> Neighbourhood:
    found = Neighbourhood(vector, WIDTH)
    found.expect(talks)
    found.refresh(cluster, nothing)
    return found


def rows(found: Neighbourhood, cluster: Cluster, *sets: tuple[int, int]) -> list[int]:
    on = {node: found.residents(cluster, node) for node, _ in sets}
    return found.rows_of(cluster, on, sets)


def test_sets_computed_together_and_alone_are_the_same() -> None:
    cluster = cluster_of([[2, 2]])
    hold(cluster, "a", 0, 0, 1)
    hold(cluster, "b", 0, 2, 3, 4)
    sets = [(0, 0b0110_0000), (0, 0b1000_0000), (0, 0b1110_0000)]
    together, alone = around(cluster), around(cluster)
    listed = rows(together, cluster, *sets)
    for at, one in zip(listed, sets, strict=True):
        (row,) = rows(alone, cluster, one)
        assert together.rows.sums[at].tolist() == alone.rows.sums[row].tolist()
        assert together.rows.joined[at].tolist() == alone.rows.joined[row].tolist()
        assert together.rows.gpus[at] == alone.rows.gpus[row]
        assert together.rows.level[at] == alone.rows.level[row]
    # The last column counts: shares of the other GPUs held, 2 and 3 of 6 for a set of two.
    assert together.rows.sums[listed[0], :, 1].sum() == pytest.approx(5 / 6)


def test_rows_are_used_again_when_jobs_come_and_go() -> None:
    cluster = cluster_of([[2] * 8])
    found = around(cluster)
    for turn in range(200):
        for node in range(8):
            hold(cluster, f"{turn}-{node}", node, turn % 4)
        found.refresh(cluster, nothing)
        sets = [(node, 1 << gpu) for node in range(8) for gpu in (4, 5, 6, 7)]
        assert len(set(rows(found, cluster, *sets))) == len(sets)
        for node in range(8):
            cluster.release(JobId(f"{turn}-{node}"))
    assert len(found.rows.gpus) == 256


def test_a_table_that_is_full_grows_and_keeps_what_it_has() -> None:
    cluster = cluster_of([[2] * 3])
    for node in range(3):
        hold(cluster, str(node), node, 0)
    found = around(cluster)
    (first,) = rows(found, cluster, (0, 0b10))
    kept = found.rows.sums[first].tolist()
    sets = [(node, mask) for node in range(3) for mask in range(2, 256, 2)]
    assert len(set(rows(found, cluster, *sets))) == len(sets)
    assert found.rows.sums[first].tolist() == kept
    assert len(found.rows.gpus) > len(sets)


def test_a_report_of_the_same_load_keeps_what_was_computed() -> None:
    cluster = cluster_of([[2]])
    hold(cluster, "a", 0, 0, 1)
    found, load = around(cluster), np.full((8, 4), 0.5, dtype=np.float32)
    cluster.apply_load(NodeName("n0-0"), load)
    before = found.residents(cluster, 0)
    cluster.apply_load(NodeName("n0-0"), load)
    assert found.residents(cluster, 0) is before
    cluster.apply_load(NodeName("n0-0"), load * 2)
    assert found.residents(cluster, 0) is not before
