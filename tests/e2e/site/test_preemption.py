"""Slurm's own preemption, by QoS and by partition, for jobs that Roost places."""

import signal
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import pytest
from tests.e2e.ledger import assert_all_completed, submit, until, until_exists, wait_until_over
from tests.e2e.site.bed import REQUEUE_DELAY_S, SOON_S, assert_runs, cleared_afterwards, site

from roost_demo.stack import Stack
from roost_slurm.testing.cluster_plan import PartitionPlan
from roost_slurm.testing.site_plan import AccountingPlan, PreemptPlan, PriorityPlan

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(240)]

LOW = {"qos": ("-q", "low"), "partition_prio": ("-p", "main")}
HIGH = {"qos": ("-q", "high"), "partition_prio": ("-p", "urgent")}
SPARED_S = 5  # for so long Slurm stops no job of the QoS "spared"
PATIENT_S = 20  # likewise of the QoS "patient": far longer than a job takes to start
BACK_S = REQUEUE_DELAY_S + 90.0  # Slurm lets a requeued job wait for REQUEUE_DELAY_S


@pytest.fixture(scope="module", params=list(LOW))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def cluster(kind: str) -> Iterator[Stack]:
    with site(
        partitions=(
            PartitionPlan(options="PriorityTier=1"),
            PartitionPlan(name="urgent", options="PriorityTier=10"),
        ),
        accounting=AccountingPlan(),
        priority=PriorityPlan(),
        preempt=PreemptPlan(kind=kind),
    ) as stack:
        accounting = stack.slurm.accounting
        accounting.add_qos("low")
        accounting.add_qos("spared", PreemptExemptTime=f"00:00:{SPARED_S:02}")
        accounting.add_qos("patient", PreemptExemptTime=f"00:00:{PATIENT_S:02}")
        accounting.add_qos("high", Priority=1000, Preempt="low,spared,patient")
        accounting.change("user", "root", qos="normal,low,spared,patient,high")
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


@pytest.fixture
def may_end(tmp_path: Path) -> Path:
    """Jobs run on until this file exists."""
    return tmp_path / "may-end"


@pytest.fixture
def low(stack: Stack, kind: str, may_end: Path) -> dict[str, int]:
    """Jobs that hold the whole cluster and may be requeued, with their GPU counts."""
    found = {
        submit(stack.slurm, *LOW[kind], "--gres=gpu:8", command=until_exists(may_end)): 8
        for _ in stack.nodes
    }
    assert_runs(stack, *found)
    return found


def submit_urgent(stack: Stack, kind: str, may_end: Path) -> str:
    return submit(stack.slurm, *HIGH[kind], "--gres=gpu:8", command=until_exists(may_end))


def start_of(stack: Stack, job_id: str) -> float:
    """When a running job started, in whole seconds."""
    shown = stack.slurm.run("squeue", "-h", "-j", job_id, "-o", "%S").strip()
    return datetime.fromisoformat(shown).timestamp()


def victims(stack: Stack, low: Iterable[str]) -> list[str]:
    return [job_id for job_id in low if stack.slurm.state(job_id) == "PENDING"]


def test_an_urgent_job_starts_at_once_and_its_victim_later(
    stack: Stack, low: dict[str, int], kind: str, may_end: Path
) -> None:
    urgent = submit_urgent(stack, kind, may_end)
    assert_runs(stack, urgent)
    assert len(victims(stack, low)) == 1
    may_end.touch()
    wait_until_over(stack.slurm, [urgent, *low], BACK_S)
    assert_all_completed(stack.slurm, low | {urgent: 8})


@pytest.mark.parametrize("kind", ["qos"], indirect=True)
def test_jobs_that_slurm_spares_for_a_while_are_stopped_as_soon_as_it_may(
    stack: Stack, kind: str, may_end: Path
) -> None:
    """On 24.11 and newer Roost counts PreemptExemptTime too, on 22.05 Slurm alone."""
    spared = [
        submit(stack.slurm, "-q", "spared", "--gres=gpu:8", command="sleep 300")
        for _ in stack.nodes
    ]
    assert_runs(stack, *spared)
    began_s = {job_id: start_of(stack, job_id) for job_id in spared}
    urgent = submit_urgent(stack, kind, may_end)
    assert_runs(stack, urgent, within_s=SPARED_S + SOON_S)
    (victim,) = victims(stack, began_s)
    assert start_of(stack, urgent) >= began_s[victim] + SPARED_S - 1


@pytest.mark.parametrize("kind", ["qos"], indirect=True)
def test_the_job_is_stopped_that_slurm_spares_no_more(
    stack: Stack, kind: str, may_end: Path
) -> None:
    """Though it is the older one: without the exempt time the younger one would go."""
    asked = ("-q", "patient", "--gres=gpu:8")
    older = submit(stack.slurm, *asked, "-w", "n1", command="sleep 300")
    assert_runs(stack, older)
    time.sleep(PATIENT_S + 1.0)
    younger = submit(stack.slurm, *asked, "-w", "n2", command="sleep 300")
    assert_runs(stack, younger)
    urgent = submit_urgent(stack, kind, may_end)
    assert_runs(stack, urgent, within_s=PATIENT_S)
    assert stack.slurm.state(older) == "PENDING"
    assert stack.slurm.state(younger) == "RUNNING"


@pytest.mark.parametrize("kind", ["qos"], indirect=True)
def test_no_job_is_lost_where_roostd_dies_before_a_preemption(
    stack: Stack, low: dict[str, int], kind: str, may_end: Path
) -> None:
    urgent = submit_urgent(stack, kind, may_end)
    stack.stop_roostd(signal.SIGKILL)
    stack.start_roostd()
    assert_runs(stack, urgent, within_s=60.0)
    may_end.touch()
    wait_until_over(stack.slurm, [urgent, *low], BACK_S)
    assert_all_completed(stack.slurm, low | {urgent: 8})


@pytest.mark.parametrize("kind", ["qos"], indirect=True)
def test_no_job_is_lost_where_roostd_dies_after_a_preemption(
    stack: Stack, low: dict[str, int], kind: str, may_end: Path
) -> None:
    urgent = submit_urgent(stack, kind, may_end)
    until(lambda: bool(victims(stack, low)), "a job is preempted")
    stack.stop_roostd(signal.SIGKILL)
    stack.start_roostd()
    may_end.touch()
    wait_until_over(stack.slurm, [urgent, *low], BACK_S)
    assert_all_completed(stack.slurm, low | {urgent: 8})
