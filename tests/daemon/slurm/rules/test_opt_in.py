"""Only jobs of the named accounts and QoS are placed; nodes off a list are not given."""

import pytest

from roost_engine.domain.model import JobSpec, NodeName
from roost_engine.testing import builders
from roost_slurm.text.squeue import QueuedJob
from roostd.slurm.rules.opt_in import OptIn, kinds_of, nodes_outside, starts_elsewhere


def asked(account: str, qos: str = "normal") -> QueuedJob:
    return QueuedJob(number=1, account=account, qos=qos)


def test_without_a_list_every_job_is_in() -> None:
    assert OptIn().why_not(asked("")) is None
    assert OptIn(accounts=("vision",)).why_not(asked("vision", qos="")) is None


@pytest.mark.parametrize("named", ["vision", "Vision"])
def test_slurm_writes_accounts_in_lower_case(named: str) -> None:
    assert OptIn(accounts=(named,)).why_not(asked("vision")) is None


@pytest.mark.parametrize(
    ("account", "qos", "reason"),
    [
        ("speech", "high", "account speech is not in accounts of roostd.yaml: left to Slurm"),
        ("", "high", "account not set is not in accounts of roostd.yaml: left to Slurm"),
        ("vision", "low", "QoS low is not in qos of roostd.yaml: left to Slurm"),
        ("vis", "high", "account vis is not in accounts of roostd.yaml: left to Slurm"),
    ],
)
def test_a_job_must_be_of_each_list(account: str, qos: str, reason: str) -> None:
    assert OptIn(accounts=("vision",), qos=("high",)).why_not(asked(account, qos)) == reason


def test_the_nodes_of_a_partition_that_it_does_not_list_are_outside() -> None:
    nodes = [
        builders.node("n1", partitions=("main", "debug")),
        builders.node("n2", partitions=("main",)),
        builders.node("n3", partitions=("debug",)),
    ]
    assert nodes_outside({"main": {"n1", "n9"}}, nodes) == {"main": frozenset({"n2"})}
    assert nodes_outside({}, nodes) == {}
    untyped = {NodeName("n1")}
    assert nodes_outside({}, nodes, untyped, {"main"}) == {"main": frozenset({"n1"})}
    assert nodes_outside({"main": {"n1", "n9"}}, nodes, untyped, {"main"}) == {
        "main": frozenset({"n1", "n2"})
    }
    assert nodes_outside({}, nodes, untyped) == {}


OUTSIDE = kinds_of(
    [
        builders.node("n3", gpu_count=4, features=("a100",)),
        builders.node("n4", gpu_count=8, features=("h100",)),
    ]
)


@pytest.mark.parametrize(
    ("job", "elsewhere"),
    [
        (builders.job("1", gpus=8), True),
        (builders.job("1", gpus=8, features=("a100",)), False),
        (builders.job("1", gpus=4, features=("a100",)), True),
        (builders.job("1", gpus=8, excluded=("n4", "n9")), False),
        (builders.job("1", gpus=4, excluded=("n4",)), True),
        (builders.job("1", gpus=4, excluded=("n3", "n4")), False),
        (builders.job("1", gpus=4, required=("n1",)), False),
        (builders.job("1", gpus=4, required=("n3",)), True),
        (builders.job("1", gpus=4, nodes=2, required=("n1",)), True),
        (builders.job("1", builders.shape(9), builders.shape(4, 2)), True),
        (builders.job("1", builders.shape(1, cpus_per_node=999)), False),
    ],
)
def test_a_job_starts_elsewhere_where_it_fits_on_a_node_that_is_not_given_out(
    job: JobSpec, elsewhere: bool
) -> None:
    assert starts_elsewhere(job, OUTSIDE) is elsewhere
    assert not starts_elsewhere(job, {})


def test_a_hidden_node_may_be_of_any_kind() -> None:
    hidden = frozenset({NodeName("n5")})
    huge = builders.job("1", gpus=16, features=("b200",))
    assert starts_elsewhere(huge, {}, hidden)
    assert not starts_elsewhere(builders.job("1", excluded=("n5",)), {}, hidden)
    assert not starts_elsewhere(builders.job("1", required=("n1",)), {}, hidden)
    assert starts_elsewhere(builders.job("1", required=("n5",)), {}, hidden)
