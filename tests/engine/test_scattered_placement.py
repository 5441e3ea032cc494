"""A placement with different GPUs on its nodes: its shares, its record, its description."""

from tests.engine.placement.listed import explained

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import NodeName, Placement
from roost_engine.domain.tier import Tier
from roost_engine.job_record import shares_of
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.options import GangOption
from roost_engine.testing.builders import bridges, node, shape, share
from roost_formats.journal.codec import decode, encode
from roostd.slurm.request import difference

SCATTERED = Placement(
    (NodeName("n0"), NodeName("n1")),
    (),
    shape(3, 1, cpus_per_node=7, memory_bytes=300),
    Tier.RACK,
    ((0, 5), (2,)),
)


def test_each_node_gives_cpus_and_memory_in_proportion_to_its_gpus() -> None:
    # 3 GPUs get 7 CPUs and 300 bytes: two get 14/3, rounded up 5, and 200; one gets 3 and 100.
    assert shares_of(SCATTERED) == (
        share("n0", 0, 5, cpu_count=5, memory_bytes=200),
        share("n1", 2, cpu_count=3, memory_bytes=100),
    )


def test_a_gang_has_the_same_gpus_on_every_node() -> None:
    gang = Placement(SCATTERED.nodes, (1, 3), shape(2, 2), Tier.RACK)
    assert list(gang.by_node()) == [("n0", (1, 3)), ("n1", (1, 3))]
    assert shares_of(gang) == (share("n0", 1, 3), share("n1", 1, 3))


def test_a_scattered_placement_survives_the_journal() -> None:
    assert decode(encode(SCATTERED), Placement) == SCATTERED


def test_a_placement_without_indices_by_node_is_read() -> None:
    gang = Placement(SCATTERED.nodes, (1, 3), shape(2, 2), Tier.RACK)
    written = encode(gang)
    assert b'"indices_by_node":[]' in written
    cut = written[8:].replace(b',"indices_by_node":[]', b"")
    assert decode(len(cut).to_bytes(4, "little") + cut, Placement) == gang


def test_only_nodes_and_numbers_of_gpus_are_compared() -> None:
    assert difference(SCATTERED, shares_of(SCATTERED)) is None
    assert difference(SCATTERED, (share("n0", 0, 5), share("n1", 3))) is None
    other = difference(SCATTERED, (share("n0", 0), share("n1", 2, 3)))
    assert other == "chosen n0:0,5 n1:2, allocated n0:0 n1:2,3"


def test_candidates_list_scattered_placements_node_by_node() -> None:
    cluster = Cluster()
    for name in ("n1", "n0"):  # node indices follow this order, placements the names
        cluster.apply_node(node(name))
        cluster.apply_topology(NodeName(name), bridges(), ())
    parts = ((*cluster.free_as(0), 0b100), (*cluster.free_as(1), 0b11))
    option = GangOption((0, 1), parts, Tier.RACK)
    candidates = Candidates(cluster, shape(3), (option,), Lazy.of(()))
    assert list(candidates.placement(0).by_node()) == [("n0", (0, 1)), ("n1", (2,))]
    # One GPU alone scores 0; the best pair of an idle node has a bridge of four lanes: 400.
    assert explained(candidates).best_link_score == 400
