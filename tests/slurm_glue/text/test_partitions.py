import pytest
from tests.slurm_glue.recorded import RELEASES, read

from roost_slurm.text.partitions import Partition, parse_partitions


@pytest.mark.parametrize("release", RELEASES)
def test_partitions_are_read(release: str) -> None:
    partitions = parse_partitions(read(release, "site_partitions.txt"))
    assert partitions["high"] == Partition(
        name="high",
        nodes="n[1-2]",
        tier=10,
        qos="part",
        max_node_count=2,
        max_time_s=86_400.0,
        max_cpus_per_node=8,
        allowed_accounts=frozenset({"phys", "hep"}),
        preempt_modes=frozenset({"REQUEUE"}),
    )
    assert partitions["cheap"] == Partition(
        name="cheap",
        nodes="n[1-3]",
        tier=0,
        denied_accounts=frozenset({"bio"}),
        denied_qos=frozenset({"high", "part"}),
        preempt_modes=frozenset({"OFF"}),
    )


@pytest.mark.parametrize("release", RELEASES)
def test_partition_that_drains_still_starts_queued_jobs(release: str) -> None:
    partitions = parse_partitions(read(release, "site_partitions.txt"))
    starts = {name: one.starts_jobs for name, one in partitions.items()}
    assert starts == {
        "main": True,
        "high": True,
        "cheap": True,
        "closed": False,
        "draining": True,
        "off": False,
    }
    assert partitions["draining"].state == "DRAIN"


def test_a_limit_by_socket_is_read_where_the_release_has_one() -> None:
    """As 24.11.5 printed it; 22.05 does not print it, and refuses to set it."""
    line = (
        "PartitionName=sock AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL"
        " Default=NO QoS=N/A DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO"
        " GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO"
        " MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=2 NodeSets=ALL Nodes=n[1-2]"
        " PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO"
        " OverTimeLimit=NONE PreemptMode=OFF State=UP TotalCPUs=32 TotalNodes=2"
    )
    assert parse_partitions(line)["sock"].max_cpus_per_socket == 2
    without = line.replace(" MaxCPUsPerSocket=2", "")
    assert parse_partitions(without)["sock"].max_cpus_per_socket is None


def test_lines_that_are_no_partition_are_left_out() -> None:
    assert parse_partitions("No partitions in the system\n") == {}
    assert (
        parse_partitions("PartitionName=a State=UP PriorityTier=1 MaxNodes=all MaxTime=1\n") == {}
    )
    assert parse_partitions("PartitionName=a State=UP\n") == {}


@pytest.mark.parametrize(
    ("printed", "exclusive_to"),
    [
        ("ExclusiveUser=YES", "USER"),
        ("ExclusiveUser=NO ExclusiveTopo=NO", ""),
        ("Exclusive=USER", "USER"),  # 26.05
        ("Exclusive=NO", ""),
        ("ExclusiveTopo=YES", "TOPO"),  # 24.11
        ("Exclusive=TOPO", "TOPO"),
    ],
)
def test_a_partition_of_one_user_or_job_at_a_time_is_read(printed: str, exclusive_to: str) -> None:
    line = f"PartitionName=eu {printed} MaxNodes=1 MaxTime=UNLIMITED PriorityTier=1 State=UP"
    assert parse_partitions(line)["eu"].exclusive_to == exclusive_to


@pytest.mark.parametrize(("printed", "topology"), [("", ""), ("Topology=blk", "blk")])
def test_the_topology_of_a_partition_is_read(printed: str, topology: str) -> None:
    line = f"PartitionName=p MaxNodes=1 MaxTime=UNLIMITED PriorityTier=1 State=UP {printed}"
    assert parse_partitions(line)["p"].topology == topology
