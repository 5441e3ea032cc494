"""Which records must be on disk before anything is done about them."""

import pytest

from roost_engine.domain.actions import Action, ReleaseToSlurm, WakeAt
from roost_engine.domain.events import Tick
from roost_engine.domain.model import JobId
from roost_formats.journal.records import Memo, RunHead, Step, must_be_on_disk


@pytest.mark.parametrize(
    ("action", "is_asked"),
    [
        (ReleaseToSlurm(job_id=JobId("1"), reason="cannot be placed"), True),
        (WakeAt(at_s=5.0), False),
    ],
)
def test_a_step_is_synced_only_if_slurm_is_asked_for_something(
    action: Action, is_asked: bool
) -> None:
    assert must_be_on_disk(Step(Tick(at_s=0.0), (action,))) is is_asked


def test_what_was_learned_is_synced_and_the_head_of_a_run_is_not() -> None:
    head = RunHead(version="1", policy="heuristic", epoch_of_zero_s=0.0, began_s=0.0, config=b"")
    assert must_be_on_disk(Memo(b"{}"))
    assert not must_be_on_disk(head)
