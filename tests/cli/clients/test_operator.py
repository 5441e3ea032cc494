"""Calls to Operator and Admin: the order of answers, and an older daemon without Admin."""

from pathlib import Path

import pytest

from roostctl.clients.calls import CallFailed
from roostctl.clients.operator import AdminClient, OperatorClient
from roostctl.testing import FakeOperator, build_job, build_node


def test_nodes_come_sorted_by_name(operator: FakeOperator, address: str) -> None:
    for name in ("gpu2", "gpu10", "gpu1"):
        operator.add_node(build_node(name))
    with OperatorClient(address) as client:
        assert [node.name for node in client.list_nodes()] == ["gpu1", "gpu10", "gpu2"]


def test_jobs_keep_the_daemons_order(operator: FakeOperator, address: str) -> None:
    for job_id in ("30", "4", "100"):
        operator.add_job(build_job(job_id))
    with OperatorClient(address) as client:
        assert [job.job_id for job in client.list_jobs(include_ended=False)] == ["30", "4", "100"]


def test_a_method_that_the_daemon_lacks_is_reported_as_an_older_daemon(
    operator: FakeOperator, address: str
) -> None:
    # The fake serves no Admin service, as a daemon of an earlier release.
    with (
        AdminClient(address, 5.0) as client,
        pytest.raises(CallFailed, match="is older than this roostctl"),
    ):
        client.unpin_timer("8/high", "root")


def test_an_absent_admin_socket_names_the_admin_options(tmp_path: Path) -> None:
    with (
        AdminClient(f"unix:{tmp_path}/admin.sock", 5.0) as client,
        pytest.raises(CallFailed, match="with --admin or ROOST_ADMIN"),
    ):
        client.pin_timer("8/high", 300.0, "root")
