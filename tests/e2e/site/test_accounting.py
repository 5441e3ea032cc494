"""What Slurm's accounting says of a job under Roost, and of the same job without."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.e2e.ledger import outcomes, submit, until, wait_until_over
from tests.e2e.site.bed import ALICE, BOB, cleared_afterwards, occupy, site

from roost_demo.stack import Stack
from roost_slurm.testing.cluster_plan import PartitionPlan
from roost_slurm.testing.local_slurm import LocalSlurm
from roost_slurm.testing.site_plan import AccountingPlan, PriorityPlan
from roost_slurm.text.tres import parse_counts

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(300)]

STEERED, PLAIN = "steered", "plain"  # accounts
SIDES = {STEERED: (ALICE, "main"), PLAIN: (BOB, "outside")}
WEIGHTS = "TRESBillingWeights=CPU=1.0,GRES/gpu=10.0"
# Slurm counts whole seconds, and also what a busy machine needs before and after the script.
EARLY_S, LATE_S = 1.0, 30.0
WAIT_S = 8.0
OVER_S = 90.0
SAME = (
    *("State", "ExitCode", "AllocTRES", "ReqTRES", "AllocCPUS", "ReqCPUS", "NNodes", "ReqMem"),
    *("TimelimitRaw", "QOS"),
)
TIMES = ("Submit", "Eligible", "Start", "ElapsedRaw")


@dataclass(frozen=True)
class Request:
    """One job, with or without Roost."""

    options: tuple[str, ...]
    command: str = "sleep 2"

    def __str__(self) -> str:
        return " ".join((*self.options, "-", self.command))


REQUESTS = (
    Request(("--gres=gpu:2", "-c3")),
    Request(("--gpus=3", "-N1")),
    Request(("-N2", "--gpus-per-node=4")),
    Request(("-n2", "-N1", "--gpus-per-task=2")),
    Request(("--gpus=2", "-N1", "--cpus-per-gpu=2", "--mem-per-gpu=200")),
    Request(("--gres=gpu:1", "-t", "2"), "sleep 1; exit 3"),
    Request(("--gres=gpu:1",), "srun sleep 1"),
    Request(("-c2",), "sleep 1"),  # without a GPU
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site(
        partitions=(PartitionPlan(options=WEIGHTS), PartitionPlan(name="outside", options=WEIGHTS)),
        accounting=AccountingPlan(),
        priority=PriorityPlan(flags=("ACCRUE_ALWAYS",)),
        select_parameters="CR_Core_Memory",
        extra_lines=("DefMemPerCPU=100",),
        settings={"partitions": {"outside": {"mode": "off"}}},
    ) as stack:
        for account, (user, _) in SIDES.items():
            stack.slurm.accounting.add_account(account)
            stack.slurm.accounting.add_user(user, account)
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def submit_as(stack: Stack, account: str, request: Request) -> str:
    user, partition = SIDES[account]
    words = ("-A", account, "-p", partition, "-t", "5", *request.options)
    return submit(stack.slurm, *words, command=request.command, user=user)


def sacct(slurm: LocalSlurm, job_id: str, *fields: str) -> dict[str, str]:
    """What slurmdbd knows of a job that has ended, and of whose request it has been told."""
    argv = ("sacct", "-X", "-n", "-P", "-j", job_id, "-o", ",".join((*fields, "ReqTRES", "End")))

    def answer() -> list[str]:
        return slurm.run(*argv).strip().split("|")

    def is_whole() -> bool:
        *_, asked, end = ["", *answer()]
        return asked != "" and end not in ("", "Unknown")

    until(is_whole, f"slurmdbd knows the end of {job_id}", 60.0)
    return dict(zip(fields, answer(), strict=False))


def seconds(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def used(stack: Stack, account: str) -> dict[str, float]:
    """What all jobs of an account have used by sacct: seconds of CPUs, GPUs and of the price."""
    argv = ("sacct", "-X", "-n", "-P", "-a", "-A", account, "-S", "now-1days")
    found = dict.fromkeys(("cpu", "gres/gpu", "billing"), 0.0)
    for line in stack.slurm.run(*argv, "-o", "ElapsedRaw,AllocTRES").splitlines():
        elapsed, allocated = line.split("|")
        counts = parse_counts(allocated)
        for name in found:
            found[name] += int(elapsed) * counts.get(name, 0.0)
    return found


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_sacct_says_the_same_of_a_job_as_without_roost(stack: Stack, request_: Request) -> None:
    ids = {account: submit_as(stack, account, request_) for account in SIDES}
    wait_until_over(stack.slurm, ids.values(), OVER_S)
    found = {account: sacct(stack.slurm, one, *SAME, *TIMES) for account, one in ids.items()}
    steered, plain = found[STEERED], found[PLAIN]
    assert {name: steered[name] for name in SAME} == {name: plain[name] for name in SAME}
    clocks = outcomes(stack.slurm, ids.values())
    for account, job_id in ids.items():
        ran_s = clocks[job_id].ended_s - clocks[job_id].began_s
        assert ran_s - EARLY_S <= float(found[account]["ElapsedRaw"]) <= ran_s + LATE_S


def test_the_wait_of_a_job_is_its_start_less_its_submission(stack: Stack) -> None:
    """Eligible is the submission without Roost; with it the moment of the last pin."""
    holders = [occupy(stack, node.name) for node in stack.nodes]
    request = Request(("--gres=gpu:2",))
    ids = {account: submit_as(stack, account, request) for account in SIDES}
    time.sleep(WAIT_S)
    stack.slurm.run("scancel", *holders)
    wait_until_over(stack.slurm, ids.values(), OVER_S)
    submitted, eligible, started = (
        {
            account: seconds(sacct(stack.slurm, job_id, name)[name])
            for account, job_id in ids.items()
        }
        for name in ("Submit", "Eligible", "Start")
    )
    for account in SIDES:
        assert started[account] - submitted[account] >= WAIT_S - 1.0
    assert eligible[PLAIN] == submitted[PLAIN]
    assert submitted[STEERED] <= eligible[STEERED] <= started[STEERED]


def test_reports_of_use_add_up_what_sacct_says(stack: Stack) -> None:
    """sreport and sshare, for the account under Roost and for the other one."""
    ids = [submit_as(stack, account, REQUESTS[0]) for account in SIDES]
    wait_until_over(stack.slurm, ids, OVER_S)
    for job_id in ids:
        sacct(stack.slurm, job_id)  # slurmdbd knows of its end
    began_s = stack.slurm.folder.slurm_conf.stat().st_mtime  # no hour is before the cluster
    begin, end = (
        time.strftime("%Y-%m-%dT%H:00:00", time.localtime(at_s))
        for at_s in (began_s, time.time() + 3600)
    )
    stack.slurm.accounting.sacctmgr("rollup", begin, end)
    words = ("sreport", "-n", "-P", "-t", "Seconds", "-T", "cpu,gres/gpu,billing")
    report = ("cluster", "AccountUtilizationByUser", f"start={begin}", f"end={end}")
    rows = [line.split("|") for line in stack.slurm.run(*words, *report).splitlines()]
    for account, (user, _) in SIDES.items():
        expected = used(stack, account)
        assert expected["gres/gpu"] > 0
        told = {
            tres: float(count)
            for _, one, login, _, tres, count in rows
            if (one, login) == (account, user)
        }
        assert told == expected, rows
    until(lambda: shares_match(stack), "sshare adds up the same", 150.0)


def shares_match(stack: Stack) -> bool:
    """Whether sshare's use is the price of all jobs; slurmctld computes it once a minute."""
    rows = stack.slurm.run("sshare", "-a", "-n", "-P", "-o", "Account,User,RawUsage").splitlines()
    parts = (row.strip().split("|") for row in rows)
    told = {account.strip(): float(use) for account, user, use in parts if user}
    return all(
        told.get(account, 0.0) == pytest.approx(used(stack, account)["billing"], rel=0.05)
        for account in SIDES
    )
