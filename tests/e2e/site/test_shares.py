"""Users get as much of the cluster as Slurm's tree of shares says, under `order.share_slack`."""

import os
from collections.abc import Iterator

import pytest
from tests.e2e.ledger import until
from tests.e2e.site.bed import ALICE, BOB, assert_runs, cleared_afterwards, occupy, site

from roost_demo.stack import Stack
from roost_proto.v1 import operator_pb2
from roost_slurm.testing.site_plan import AccountingPlan, PriorityPlan

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

SHARES = {ALICE: 3, BOB: 1}
ORDER = {"order": {"kind": "learned", "share_slack": 1.0}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    accounting = AccountingPlan(enforce=("associations",))
    with site(accounting=accounting, priority=PriorityPlan(), settings=ORDER) as stack:
        stack.slurm.accounting.add_account("physics")
        for user, share in SHARES.items():
            stack.slurm.accounting.add_user(user, "physics", Fairshare=share)
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def share_user_count(stack: Stack) -> int:
    return stack.operator().GetStatus(operator_pb2.GetStatusRequest()).share_user_count


@pytest.mark.skipif(os.environ.get("ROOST_SITE_PLAIN") == "1", reason="is about Roost's order")
def test_the_user_with_the_larger_share_gets_it(stack: Stack) -> None:
    until(lambda: share_user_count(stack) == 3, "the shares are read")  # with root's
    holders = [occupy(stack, node) for node in ("n1", "n2")]
    asked = ("--gres=gpu:4", "-t", "10")
    hers, his = list[str](), list[str]()
    for _ in range(3):  # by turns: with equal shares, half of the first four would be his
        hers.append(stack.slurm.submit(*asked, user=ALICE))
        his.append(stack.slurm.submit(*asked, user=BOB))
    stack.slurm.run("scancel", *holders)
    assert_runs(stack, *hers, his[0])
    assert [stack.slurm.state(job_id) for job_id in his[1:]] == ["PENDING"] * 2
