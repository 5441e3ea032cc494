"""A throw-away cluster with accounting: limits and power saving act as on a site."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.conftest import LocalSlurmFactory
from tests.e2e.ledger import end_jobs, until

from roost_slurm.testing.accounting import AccountingFailed
from roost_slurm.testing.cluster_plan import ClusterPlan, PartitionPlan
from roost_slurm.testing.local_slurm import LocalSlurm
from roost_slurm.testing.site_plan import (
    AccountingPlan,
    PowerSavingPlan,
    PreemptPlan,
    PriorityPlan,
)

pytestmark = [pytest.mark.slurm, pytest.mark.usefixtures("local_slurm_factory")]

ALICE = "games"  # users that every Debian has
LIMIT = "gres/gpu=2"
BOOT_S = 3.0  # a boot before the second in which slurmctld asked for it does not count


@pytest.fixture(scope="module")
def running(local_slurm_factory: LocalSlurmFactory) -> LocalSlurm:
    """n1 is suspended when it is idle; n2 belongs to jobs that name it."""
    plan = replace(
        ClusterPlan.uniform(2),
        partitions=(
            PartitionPlan(nodes=("n2",), options="PriorityTier=1"),
            PartitionPlan(name="cloud", nodes=("n1",)),
        ),
        licenses="ansys:1",
        accounting=AccountingPlan(),
        priority=PriorityPlan(flags=("ACCRUE_ALWAYS",)),
        preempt=PreemptPlan(kind="qos"),
        power_saving=PowerSavingPlan(suspend_after_s=3, always_on=("n2",)),
    )
    cluster = local_slurm_factory(plan)
    cluster.accounting.add_account("physics")
    cluster.accounting.add_qos("small", MaxTRESPerUser=LIMIT)
    cluster.accounting.add_user(ALICE, "physics", qos=("small",))
    return cluster


@pytest.fixture
def cluster(running: LocalSlurm) -> Iterator[LocalSlurm]:
    yield running
    end_jobs(running)


def reason(cluster: LocalSlurm, job: str) -> str:
    return cluster.run("squeue", "-h", "-j", job, "-o", "%r").strip()


def test_a_limit_of_a_qos_holds_for_its_user(cluster: LocalSlurm) -> None:
    first, second = (cluster.submit("-q", "small", "--gres=gpu:2", user=ALICE) for _ in range(2))
    cluster.wait_for_state(first, "RUNNING")
    until(lambda: reason(cluster, second) == "QOSMaxGRESPerUser", "the limit shows")
    cluster.accounting.change("qos", "small", MaxTRESPerUser="gres/gpu=-1")
    try:
        cluster.wait_for_state(second, "RUNNING")
    finally:
        cluster.accounting.change("qos", "small", MaxTRESPerUser=LIMIT)
        shown = ("scontrol", "show", "assoc_mgr", "flags=qos")
        until(lambda: f"{LIMIT}(" in cluster.run(*shown), "slurmctld knows the limit again")


def test_jobs_stand_in_the_accounts_of_their_user(cluster: LocalSlurm) -> None:
    job = cluster.submit("--gres=gpu:1", user=ALICE, script="true")
    cluster.wait_for_state(job, "COMPLETED")
    argv = ("sacct", "-X", "-n", "-P", "-j", job, "-o", "user,account,state")
    until(lambda: cluster.run(*argv) == f"{ALICE}|physics|COMPLETED\n", "sacct knows the job")


def test_licences_are_counted(cluster: LocalSlurm) -> None:
    first, second = (cluster.submit("-L", "ansys") for _ in range(2))
    cluster.wait_for_state(first, "RUNNING")
    until(lambda: reason(cluster, second) == "Licenses", "the licence is taken")


def test_a_user_without_an_account_is_refused(cluster: LocalSlurm) -> None:
    argv = ("sbatch", "--test-only", "--wrap=true")
    assert "Invalid account" in cluster.run("sh", "-c", f"{' '.join(argv)} 2>&1; true", user="news")


def test_sacctmgr_says_what_is_wrong(cluster: LocalSlurm) -> None:
    with pytest.raises(AccountingFailed, match="nobody"):
        cluster.accounting.add_user("nobody", "nowhere")


def test_an_idle_node_is_suspended_and_resumed_for_a_job(cluster: LocalSlurm) -> None:
    def count(verb: str) -> int:
        return cluster.power_requests().count((verb, "n1"))

    resumed_count = count("resume")
    until(lambda: count("suspend") > resumed_count, "n1 is suspended")
    assert ("suspend", "n2") not in cluster.power_requests()
    cluster.stop_node("n1")
    until(lambda: "POWERED_DOWN" in cluster.run("scontrol", "show", "node", "n1"), "n1 is down")
    job = cluster.submit("-p", "cloud", script="true")
    until(lambda: count("resume") > resumed_count, "n1 is resumed")
    time.sleep(BOOT_S)
    cluster.start_node("n1", booted=True)
    # slurmctld looks every 30 s whether the nodes of a job are up, and may need two looks.
    cluster.wait_for_state(job, "COMPLETED", timeout_s=75.0)


def test_stop_ends_the_database_too() -> None:
    with LocalSlurm(replace(ClusterPlan.uniform(1), accounting=AccountingPlan())) as cluster:
        root, daemons = cluster.folder.root, list(cluster.accounting.processes)
        assert [os.path.exists(f"/proc/{daemon.pid}") for daemon in daemons] == [True, True]
    assert [daemon.poll() is None for daemon in daemons] == [False, False]
    assert not root.exists()
