"""Which jobs a list shows."""

import pytest
from tests.cli.conftest import Run

from roost_proto.v1 import operator_pb2 as pb
from roostctl.options.job_filter import JobFilter, filter_of
from roostctl.output.logins import login
from roostctl.testing import FakeOperator, build_job


def job(**fields: str) -> pb.Job:
    found = build_job("1", pb.JOB_STATE_WAITING, user_id=0)
    for name, value in fields.items():
        setattr(found, name, value)
    return found


@pytest.mark.parametrize(
    ("given", "takes"),
    [
        ({}, True),
        ({"users": ["root"]}, True),
        ({"users": ["0"]}, True),
        ({"users": ["alice", "bob"]}, False),
        ({"accounts": ["vision"]}, True),
        ({"accounts": ["speech"]}, False),
        ({"partitions": ["debug"]}, True),
        ({"partitions": ["main"]}, False),
        ({"states": ["waiting", "running"]}, True),
        ({"states": ["let_go"]}, False),
        ({"names": ["train-*"]}, True),
        ({"names": ["train-?"]}, False),
        ({"users": ["root"], "names": ["eval"]}, False),
    ],
)
def test_a_job_is_shown_where_every_filter_takes_it(
    given: dict[str, list[str]], takes: bool
) -> None:
    names = ("users", "accounts", "partitions", "states", "names")
    wanted = filter_of(**{name: given.get(name, []) for name in names})
    shown = job(account="vision", partition="gpu,debug", name="train-07")
    assert wanted.of([shown]) == ([shown] if takes else [])


def test_the_user_of_a_job_may_not_be_known() -> None:
    unknown = build_job("1", user_id=None)
    assert login(unknown) == "-"
    assert JobFilter(users=frozenset({"root"})).takes(unknown) is False


def test_filters_take_several_values(cluster: FakeOperator, run: Run) -> None:
    cluster.jobs["4713"].name = "train-1"
    assert run("jobs", "--name", "train-*,eval").stdout.splitlines()[1].startswith("4713 ")
    assert run("jobs", "-u", "root", "-u", "60001").stdout.count("\n4") == 5
    assert run("jobs", "--state", "let-go").stdout.splitlines()[-1] == "1 job: 1 left to Slurm."
    assert run("jobs", "--state", "ended").stdout.splitlines()[-1] == "1 job: 1 ended."
    assert run("jobs", "-u", "nobody-has-this-name").stdout == "No jobs that ask for GPUs.\n"


def test_a_state_that_does_not_exist_is_named_with_those_that_do(
    cluster: FakeOperator, run: Run
) -> None:
    result = run("jobs", "--state", "pending")
    assert result.exit_code == 2
    assert "no state 'pending'; want one of waiting, placing, running" in result.stderr
