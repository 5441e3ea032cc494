"""The JSON of a node's links."""

import json

from tests.cli.conftest import Run

from roost_proto.v1 import telemetry_pb2
from roostctl.documents.topology import gpu_of, topology_document
from roostctl.testing import FakeOperator, build_node, build_topology


def test_topology_says_who_holds_a_gpu_by_uuid_not_by_index(
    cluster: FakeOperator, run: Run
) -> None:
    # The probe's numbering is the reverse of Slurm's here.
    for index, gpu in enumerate(cluster.topologies["gpu1"].gpus):
        gpu.uuid = f"GPU-{7 - index:08x}"
    document = json.loads(run("topology", "gpu1", "--json").stdout)
    assert document["gpus"][7]["job_id"] == "4711"
    assert document["gpus"][0]["free"] is True


def test_without_uuids_a_gpu_is_found_by_its_index() -> None:
    node = build_node("n1", holders={1: "7"}, gpu_count=2)
    for gpu in node.gpus:
        gpu.uuid = ""
    entry = gpu_of(node, telemetry_pb2.Gpu(index=1, uuid="GPU-a"))
    assert entry is not None
    assert entry.job_id == "7"


def test_a_gpu_that_the_node_does_not_know_has_no_holder() -> None:
    node = build_node("n1", gpu_count=2)
    assert gpu_of(node, telemetry_pb2.Gpu(index=0, uuid="GPU-of-another-node")) is None
    topology = build_topology("n1", 2, pairs=[])
    topology.gpus[1].uuid = "GPU-of-another-node"
    known, unknown = topology_document(topology, node)["gpus"]
    assert (known["free"], unknown["free"]) == (True, None)


def test_links_come_in_order_with_their_level_and_lanes() -> None:
    topology = build_topology("n1", 4, pairs=[(0, 1)])
    links = list(topology.links)
    del topology.links[:]
    topology.links.extend(reversed(links))
    document = topology_document(topology, build_node("n1", gpu_count=4))
    assert [(link["a"], link["b"]) for link in document["links"]] == (
        [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    )
    assert document["links"][0]["nvlink_count"] == 4
    assert (document["links"][0]["level"], document["links"][1]["level"]) == ("numa_node", "system")
