"""roost_engine.scoring.neighbourhood: what sets of GPUs are beside."""

from collections.abc import Mapping

import numpy as np
import pytest
from tests.engine.scoring.graph_cluster import cluster_of, talks

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, JobSpec, NodeName, NodeShare
from roost_engine.domain.topology import Level, Link, LinkMatrix
from roost_engine.scoring import set_rows
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


def test_nodes_with_the_same_jobs_on_the_same_gpus_share_rows() -> None:
    cluster = cluster_of([[2] * 8])
    found = around(cluster)
    for turn in range(20):
        for node in range(8):
            hold(cluster, f"{turn}-{node}", node, turn % 4)
        found.refresh(cluster, nothing)
        sets = [(node, 1 << gpu) for node in range(8) for gpu in (4, 5, 6, 7)]
        assert max(rows(found, cluster, *sets)) < 4 * 4  # four situations, four sets each
        for node in range(8):
            cluster.release(JobId(f"{turn}-{node}"))


def test_a_table_that_is_full_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_rows, "_MOST_ROWS", 4)
    cluster = cluster_of([[2]])
    hold(cluster, "a", 0, 0)
    found = around(cluster)
    before = rows(found, cluster, *[(0, 1 << gpu) for gpu in (1, 2, 3, 4)])
    found.refresh(cluster, nothing)
    (row,) = rows(found, cluster, (0, 0b1_0000))
    assert (before, row) == ([0, 1, 2, 3], 0)
    assert np.isnan(found.rows.losses(vector({}), 0)).all()


def test_a_table_grows_and_keeps_what_it_has() -> None:
    cluster = cluster_of([[2] * 3])
    for node in range(3):
        hold(cluster, str(node), node, node)
    found = around(cluster)
    (first,) = rows(found, cluster, (0, 0b10))
    kept, found.rows.losses(vector({}), 0)[first] = found.rows.sums[first].tolist(), 0.5
    sets = [(node, mask) for node in range(3) for mask in range(1, 256) if not mask >> node & 1]
    assert len(set(rows(found, cluster, *sets))) == len(sets)
    assert found.rows.sums[first].tolist() == kept
    losses = found.rows.losses(vector({}), 0)
    assert losses[first].tolist() == [0.5, 0.5]
    assert np.isnan(losses).sum() == losses.size - 2


def test_links_that_are_reported_while_jobs_run_are_read() -> None:
    cluster = cluster_of([[2]])
    hold(cluster, "a", 0, 0, 1)
    found = around(cluster)
    (before,) = rows(found, cluster, (0, 0b100))
    one_switch = LinkMatrix.uniform(8, Link(Level.SINGLE_SWITCH))
    cluster.apply_topology(NodeName("n0-0"), one_switch, ())
    (after,) = rows(found, cluster, (0, 0b100))
    assert found.rows.level[[before, after]].tolist() == [2, 0]


def test_a_report_of_the_same_load_keeps_what_was_computed() -> None:
    cluster = cluster_of([[2]])
    hold(cluster, "a", 0, 0, 1)
    found, load = around(cluster), np.full((8, 4), 0.5, dtype=np.float32)
    cluster.apply_loads((NodeName("n0-0"),), load[None])
    before = found.residents(cluster, 0)
    cluster.apply_loads((NodeName("n0-0"),), load[None])
    assert found.residents(cluster, 0) is before
    cluster.apply_loads((NodeName("n0-0"),), (load * 2)[None])
    assert found.residents(cluster, 0) is not before


def test_after_another_load_only_vectors_are_computed_again() -> None:
    cluster = cluster_of([[2, 2]])
    hold(cluster, "a", 0, 0, 1)
    hold(cluster, "b", 0, 2)
    hold(cluster, "c", 1, 0, 1)
    found, sets = around(cluster), [(0, 0b1000_0000), (0, 0b1100_0000), (1, 0b1100_0000)]
    rows(found, cluster, *sets)
    layout, other = found.residents(cluster, 0).layout, found.residents(cluster, 1)
    cluster.apply_loads((NodeName("n0-0"),), np.full((8, 4), 5e10, dtype=np.float32)[None])
    listed, fresh = rows(found, cluster, *sets), around(cluster)
    assert found.residents(cluster, 0).layout is layout
    assert found.residents(cluster, 1) is other
    for mine, new in zip(listed, rows(fresh, cluster, *sets), strict=True):
        for name in ("sums", "joined", "gpus", "level"):
            column, wanted = getattr(found.rows, name), getattr(fresh.rows, name)
            assert column[mine].tolist() == wanted[new].tolist()


def recorded(cluster: Cluster) -> Mapping[str, float]:
    """Return what the vector of the only job on node 0 is made of."""
    made = list[Mapping[str, float]]()

    def keep(means: Mapping[str, float]) -> np.ndarray:
        made.append(dict(means))
        return vector(means)

    found = Neighbourhood(keep, WIDTH)
    found.expect(talks)
    found.refresh(cluster, nothing)
    found.residents(cluster, 0)
    return made[-1]


def test_a_quantity_that_no_probe_reports_stays_absent_or_as_expected() -> None:
    cluster, unknown = cluster_of([[2]]), np.nan
    hold(cluster, "a", 0, 0, 1)
    expected = recorded(cluster)["pcie"]
    assert expected > 0
    load = np.full((8, 4), unknown, dtype=np.float32)
    load[:, 0] = 0.5
    load[0, 3] = 1e9  # NVLink of one of its two GPUs
    cluster.apply_loads((NodeName("n0-0"),), load[None])
    assert recorded(cluster) == {"pcie": expected, "sm": 0.5}
    load[:, 2] = 0.0
    cluster.apply_loads((NodeName("n0-0"),), load[None])
    assert recorded(cluster) == {"pcie": 0.0, "sm": 0.5}  # reported: there is no traffic


def test_the_load_of_a_job_over_minutes_is_part_of_its_vector() -> None:
    cluster = cluster_of([[2]])
    hold(cluster, "a", 0, 0, 1)
    found = around(cluster)
    before = found.residents(cluster, 0)
    assert not cluster.apply_job_load(JobId("b"), {"power": 0.5})
    assert found.residents(cluster, 0) is before
    assert cluster.apply_job_load(JobId("a"), {"power": 0.5, "sm_variation": 0.1})
    assert found.residents(cluster, 0) is not before
    made = recorded(cluster)
    assert (made["power"], made["sm_variation"]) == (0.5, 0.1)
    hold(cluster, "a", 0, 2, 3)  # elsewhere
    assert "power" not in recorded(cluster)
