"""Limits and accounting by GPU model, through a count-only gres of the model's name."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.e2e.ledger import until
from tests.e2e.site.bed import ALICE, BOB, NODES, assert_runs, cleared_afterwards, queue, site

from roost_demo.stack import Stack
from roost_slurm.testing.site_plan import AccountingPlan, PriorityPlan

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

FORMS = (("--gpus=h100:2",), ("--gres=gpu:h100:2",), ("-C", "h100", "--gpus=2"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    nodes = tuple(
        replace(node, features=(model,))
        for node, model in zip(NODES, ("a100", "h100"), strict=True)
    )
    with site(
        nodes=nodes,
        model_names=("a100", "h100"),
        counts_models=True,
        accounting=AccountingPlan(tres=("gres/gpu", "gres/a100", "gres/h100")),
        priority=PriorityPlan(),
    ) as stack:
        accounting = stack.slurm.accounting
        accounting.add_account("physics")
        accounting.add_qos("two", MaxTRESPerUser="gres/h100=2")
        for user in (ALICE, BOB):
            accounting.add_user(user, "physics", qos=("two",))
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_a_limit_on_a_model_holds_and_blocks_no_other_user(
    stack: Stack, form: tuple[str, ...]
) -> None:
    first, second = (stack.slurm.submit("-q", "two", *form, user=ALICE) for _ in range(2))
    other_user = stack.slurm.submit("-q", "two", *form, user=BOB)
    other_model = stack.slurm.submit("-q", "two", "--gpus=a100:8", user=ALICE)
    assert_runs(stack, first, other_user, other_model)
    assert stack.slurm.state(second) == "PENDING", queue(stack.slurm)
    stack.slurm.run("scancel", first)
    assert_runs(stack, second)


def test_accounting_shows_how_many_gpus_of_a_model_a_job_had(stack: Stack) -> None:
    job_id = stack.slurm.submit("--gpus=h100:2", user=ALICE, script="sleep 1")
    stack.slurm.wait_for_state(job_id, "COMPLETED")
    argv = ("sacct", "-X", "-n", "-P", "-j", job_id, "-o", "AllocTRES")
    until(
        lambda: {"gres/gpu=2", "gres/h100=2"} <= set(stack.slurm.run(*argv).strip().split(",")),
        "sacct shows the model",
    )
