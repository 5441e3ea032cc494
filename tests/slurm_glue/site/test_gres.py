"""gres.conf and the Gres= of nodes."""

from roost_slurm.site import gres
from roost_slurm.site.inventory import Gpu, NodeGpus


def node(name: str, *minors: int) -> NodeGpus:
    return NodeGpus(name, tuple(Gpu(minor_number=minor, model="T4") for minor in minors))


def test_each_gpu_has_a_type_by_its_index_and_a_file_by_its_minor_number() -> None:
    text = gres.gres_conf([node("n1", 0, 3)], device_prefix="/dev/nvidia", seats=False)
    assert text == (
        "AutoDetect=off\n"
        "NodeName=n1 Name=gpu Type=g0 File=/dev/nvidia0\n"
        "NodeName=n1 Name=gpu Type=g1 File=/dev/nvidia3\n"
    )


def test_seats_add_a_shared_gpu_and_a_token_each() -> None:
    text = gres.gres_conf([node("n1", 0, 3)], device_prefix="/dev/nvidia", seats=True)
    assert text.splitlines()[3:] == [
        "NodeName=n1 Name=gpu Type=s0 MultipleFiles=/dev/nvidia0,/dev/roost/seat0",
        "NodeName=n1 Name=gpu Type=s1 MultipleFiles=/dev/nvidia3,/dev/roost/seat1",
        "NodeName=n1 Name=gputoken Count=2",
    ]


def test_nodes_with_equal_device_files_share_their_lines() -> None:
    nodes = [node("n1", 0), node("n2", 1), node("n3", 0), node("login")]
    assert gres.group(nodes, lambda one: one.minor_numbers) == [((0,), "n[1,3]"), ((1,), "n2")]


def test_the_gres_of_a_node_names_each_gpu() -> None:
    two = node("n1", 0, 1)
    assert gres.node_gres(two, seats=False, counted={}) == "gpu:g0:1,gpu:g1:1"
    assert (
        gres.node_gres(two, seats=True, counted={})
        == "gpu:g0:1,gpu:g1:1,gpu:s0:1,gpu:s1:1,gputoken:2"
    )


def test_gpus_can_be_counted_by_their_model() -> None:
    nodes = [node("n1", 0, 1), node("n2", 0, 1), node("n3", 0)]
    counted = {"n1": "h100", "n2": "h100"}
    text = gres.gres_conf(nodes, device_prefix="/dev/nvidia", seats=False, counted=counted)
    tokens = [line for line in text.splitlines() if "CountOnly" in line]
    assert tokens == ["NodeName=n[1-2] Name=h100 Count=2 Flags=CountOnly"]
    assert gres.node_gres(nodes[0], seats=False, counted=counted) == "gpu:g0:1,gpu:g1:1,h100:2"
    assert gres.node_gres(nodes[2], seats=False, counted=counted) == "gpu:g0:1"
    # A job on a second seat takes a token as well.
    assert gres.node_gres(nodes[0], seats=True, counted=counted).endswith("gputoken:2,h100:4")


def test_there_is_a_seat_device_for_each_gpu_of_the_largest_node() -> None:
    lines = gres.seat_devices([node("n1", 0), node("n2", 0, 1, 2)]).splitlines()
    assert lines == [
        "d /dev/roost 0755 root root -",
        "c /dev/roost/seat0 0666 root root - 241:0",
        "c /dev/roost/seat1 0666 root root - 241:1",
        "c /dev/roost/seat2 0666 root root - 241:2",
    ]
