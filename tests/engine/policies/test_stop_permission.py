"""Only jobs with a checkpoint, in partitions that allow preemption, may be stopped."""

from dataclasses import replace

import pytest

from roost_engine.job_record import JobRecord
from roost_engine.policies.stop_permission import StopPermission
from roost_engine.testing.builders import job, waiting

PERMISSION = StopPermission(("main", "long"))


def record(partition: str, checkpoint_s: float | None) -> JobRecord:
    return waiting(replace(job("1", partition=partition), checkpoint_s=checkpoint_s))


@pytest.mark.parametrize(
    ("partition", "checkpoint_s", "may_stop"),
    [
        ("main", 600.0, True),
        ("long", 0.0, True),
        ("main", None, False),
        ("debug", 600.0, False),
    ],
)
def test_a_job_may_be_stopped_where_its_partition_and_the_job_itself_allow_it(
    partition: str, checkpoint_s: float | None, may_stop: bool
) -> None:
    assert PERMISSION.may_stop(record(partition, checkpoint_s)) is may_stop


def test_a_job_without_a_checkpoint_may_have_others_stopped_for_it() -> None:
    assert PERMISSION.covers(record("main", None))
    assert not PERMISSION.covers(record("debug", 600.0))
