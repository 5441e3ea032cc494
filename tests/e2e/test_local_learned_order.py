"""`order: learned` on a real Slurm: short jobs first, unless people or Slurm's rules say otherwise.

Two users teach roostd: the jobs of one end at once, those of the other take half a minute.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from click.testing import CliRunner
from tests.conftest import missing
from tests.e2e.ledger import outcomes, submit, until, wait_until_over, without_node_hooks
from tests.e2e.site.bed import ALICE, BOB, cleared_afterwards, occupy

from roost_demo.stack import NodeKind, Stack
from roost_proto.v1 import operator_pb2 as pb
from roost_slurm.testing.availability import LocalSlurmUnavailable
from roost_slurm.testing.cluster_plan import ClusterPlan, PartitionPlan
from roost_slurm.testing.site_plan import PriorityPlan
from roostctl.main import cli

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(240)]

SETTINGS = {"order": {"kind": "learned"}, "slurm": {"poll_interval_s": 1.0}}
PARTITIONS = (
    PartitionPlan(options="PriorityTier=1"),
    PartitionPlan(name="first", options="PriorityTier=10"),
)
LONG_S = 35


@pytest.fixture(scope="module", params=["basic", "multifactor"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """A node of 8 GPUs whose users have taught roostd, under each of Slurm's priority plug-ins."""

    def amend(plan: ClusterPlan) -> ClusterPlan:
        plan = without_node_hooks(plan)
        priority = PriorityPlan(age_weight=1_000) if request.param == "multifactor" else None
        parameters = f"{plan.scheduler_parameters},enable_user_top"
        return replace(
            plan, priority=priority, partitions=PARTITIONS, scheduler_parameters=parameters
        )

    try:
        nodes = [NodeKind(name="n1", topology="nvswitch8")]
        with Stack(nodes, settings=SETTINGS, amend_plan=amend) as running:
            teach(running)
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


def teach(stack: Stack) -> None:
    """Let jobs of both users run: four of Bob's beside twelve of Alice's."""
    slow = [send(stack, BOB, gpus=1, command=f"sleep {LONG_S}") for _ in range(4)]
    quick = [send(stack, ALICE, gpus=1, command="true") for _ in range(12)]
    wait_until_over(stack.slurm, slow + quick, LONG_S + 120.0)


def send(stack: Stack, user: str, *options: str, gpus: int = 8, command: str = "sleep 1") -> str:
    name = f"-J{user}-train"
    script = f"#!/bin/sh\n{command}\n"
    given = (f"--gres=gpu:{gpus}", "-t30", name, *options)
    return stack.slurm.submit(*given, script=script, user=user)


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


@pytest.fixture
def holder(stack: Stack) -> str:
    """The job that holds every GPU until it is cancelled."""
    return occupy(stack, "n1")


def explain(stack: Stack, job_id: str) -> pb.Explanation:
    return stack.operator().ExplainJob(pb.ExplainJobRequest(job_id=job_id))


def positions(stack: Stack, *job_ids: str) -> list[int]:
    return [explain(stack, job_id).turn.position for job_id in job_ids]


def queued(stack: Stack, *job_ids: str) -> None:
    """Wait until roostd has all of these in its queue."""
    until(lambda: _are_known(stack, job_ids), "roostd knows the jobs")


def _are_known(stack: Stack, job_ids: tuple[str, ...]) -> bool:
    known = {job.job_id for job in stack.operator().ListJobs(pb.ListJobsRequest()).jobs}
    return known.issuperset(job_ids) and all(
        explain(stack, job_id).HasField("turn") for job_id in job_ids
    )


def starts(stack: Stack, *job_ids: str, first: Callable[[], object]) -> list[str]:
    """Return jobs in the order in which they start, after `first` has made way for them."""
    first()
    seen: list[str] = []
    deadline_s = time.monotonic() + 60.0
    while len(seen) < len(job_ids):
        assert time.monotonic() < deadline_s, f"{seen} of {job_ids}: {stack.log('roostd')[-3000:]}"
        told = stack.slurm.run("squeue", "-h", "-t", "all", "-o", "%A %T").splitlines()
        states = dict(line.split() for line in told)
        seen += [
            job_id
            for job_id in job_ids
            if job_id not in seen and states.get(job_id) in ("RUNNING", "COMPLETING", "COMPLETED")
        ]
        time.sleep(0.1)
    return seen


def test_short_jobs_start_before_long_ones_that_came_earlier(stack: Stack, holder: str) -> None:
    long_one, long_two = send(stack, BOB), send(stack, BOB)
    short_one, short_two = send(stack, ALICE), send(stack, ALICE)
    queued(stack, long_one, long_two, short_one, short_two)

    jobs = (short_one, short_two, long_one, long_two)
    assert positions(stack, *jobs) == [1, 2, 3, 4]
    assert [explain(stack, job_id).turn.slurm_position for job_id in jobs] == [3, 4, 1, 2]
    told = explain(stack, long_one)
    assert told.turn.order == "learned"
    assert told.turn.overtaken_for_s > 0.0
    assert told.expected_run.median_s > explain(stack, short_one).expected_run.median_s
    assert told.expected_run.low_s < told.expected_run.median_s < told.expected_run.high_s

    order = starts(stack, *jobs, first=lambda: stack.slurm.run("scancel", holder))
    assert order == list(jobs)


def test_a_priority_that_an_administrator_sets_wins_at_once(stack: Stack, holder: str) -> None:
    short, long = send(stack, ALICE), send(stack, BOB)
    queued(stack, short, long)
    assert positions(stack, short, long) == [1, 2]

    stack.slurm.run("scontrol", "update", f"jobid={long}", "priority=4294967000")
    until(lambda: positions(stack, long) == [1], "the raised job is the first")
    assert explain(stack, long).turn.precedence == 1

    order = starts(stack, long, short, first=lambda: stack.slurm.run("scancel", holder))
    assert order == [long, short]


def test_nice_puts_a_job_first_or_last_and_back(stack: Stack, holder: str) -> None:
    short, long, other = send(stack, ALICE), send(stack, BOB), send(stack, BOB)
    queued(stack, short, long, other)
    stack.slurm.run("scontrol", "update", f"jobid={other}", "nice=-5000")
    until(lambda: positions(stack, other, short, long) == [1, 2, 3], "it is the first")
    stack.slurm.run("scontrol", "update", f"jobid={other}", "nice=0")
    until(lambda: explain(stack, other).turn.precedence == 0, "it is not put first any more")
    assert positions(stack, short, long, other) == [1, 2, 3]


def test_scontrol_top_moves_a_job_before_the_others_of_its_user_only(
    stack: Stack, holder: str
) -> None:
    if "priority/multifactor" in stack.slurm.run("scontrol", "show", "config"):
        pytest.skip("the multifactor priorities of new jobs are equal: Slurm has nothing to move")
    short, long, other = send(stack, ALICE), send(stack, BOB), send(stack, BOB)
    queued(stack, short, long, other)
    assert positions(stack, short, long, other) == [1, 2, 3]
    stack.slurm.run("scontrol", "top", other)
    until(lambda: positions(stack, short, other, long) == [1, 2, 3], "it is before the other")
    stack.slurm.run("scontrol", "top", long)
    until(lambda: positions(stack, short, long, other) == [1, 2, 3], "the other one is again")


def test_a_held_job_a_dependent_one_and_tasks_beyond_a_limit_wait_as_slurm_says(
    stack: Stack, holder: str
) -> None:
    held = send(stack, ALICE, "--hold")
    long = send(stack, BOB)
    after = send(stack, ALICE, f"--dependency=afterok:{long}")
    array = send(stack, ALICE, "--array=1-2%1", gpus=1, command="sleep 3")
    queued(stack, long, f"{array}_1")
    assert not explain(stack, held).HasField("turn")
    assert explain(stack, held).job.reason.startswith("is held")
    assert not explain(stack, after).HasField("turn")
    stack.slurm.run("scancel", holder)
    most = 0

    def is_over() -> bool:
        nonlocal most
        running = stack.slurm.run("squeue", "-h", "-t", "running", "-j", array, "-o", "%A")
        most = max(most, len(running.split()))
        states = stack.slurm.run("squeue", "-h", "-t", "all", "-o", "%i %T")
        return f"{after} COMPLETED" in states and f"{array}_2 COMPLETED" in states

    until(is_over, "all but the held job have run", 60.0)
    assert most == 1
    assert stack.slurm.state(held) == "PENDING"
    stack.slurm.run("scontrol", "release", held)
    wait_until_over(stack.slurm, [held], 60.0)


def test_a_job_of_a_higher_tier_starts_first(stack: Stack, holder: str) -> None:
    short, long = send(stack, ALICE), send(stack, BOB, "-pfirst")
    queued(stack, short, long)
    assert positions(stack, long, short) == [1, 2]
    order = starts(stack, long, short, first=lambda: stack.slurm.run("scancel", holder))
    assert order == [long, short]


def test_jobs_without_gpus_and_jobs_left_to_slurm_run_beside_the_queue(
    stack: Stack, holder: str
) -> None:
    waiting = [send(stack, ALICE) for _ in range(3)]
    queued(stack, *waiting)
    cpu = submit(stack.slurm, "-c1", "-t1", command="true")
    left = submit(stack.slurm, "-t1", "--gres=gpu:g3:1", command="sleep 1")
    wait_until_over(stack.slurm, [cpu], 60.0)
    stack.slurm.run("scancel", holder)
    wait_until_over(stack.slurm, [*waiting, left], 60.0)
    assert outcomes(stack.slurm, [left])[left].gpus == {"n1": (3,)}


def test_a_restart_keeps_what_was_learned_and_who_was_put_first(stack: Stack, holder: str) -> None:
    short, long = send(stack, ALICE), send(stack, BOB)
    queued(stack, short, long)
    stack.slurm.run("scontrol", "update", f"jobid={long}", "nice=-5000")
    until(lambda: positions(stack, long, short) == [1, 2], "the raised job is the first")
    before = explain(stack, long).expected_run

    stack.stop_roostd()
    stack.start_roostd()
    queued(stack, short, long)

    assert positions(stack, long, short) == [1, 2]
    after = explain(stack, long).expected_run
    assert after.similar_count == pytest.approx(before.similar_count, rel=0.01)
    assert after.median_s == pytest.approx(before.median_s, rel=0.01)


def test_explain_tells_it_in_words(stack: Stack, holder: str) -> None:
    short, long = send(stack, ALICE), send(stack, BOB)
    queued(stack, short, long)
    asked = ["--daemon", stack.operator_address, "explain", long]
    words = " ".join(CliRunner().invoke(cli, asked).stdout.split())
    assert "It is number 2 of 2 waiting jobs in the order learned, number " in words
    assert "It is expected to run for " in words
    document = json.loads(CliRunner().invoke(cli, [*asked, "--json"]).stdout)
    assert document["turn"]["position"] == 2
    assert document["expected_run"]["similar_count"] > 0.5
