"""The life of a job in the view: Slurm may reuse its number, and may requeue it."""

import pytest

from roostd.slurm.queue_view import Life, is_next_life

REQUEUED: Life = (7, 160.0, 1)  # record number, submission, restarts


@pytest.mark.parametrize(
    ("before", "is_next"),
    [
        pytest.param((7, 100.0, 0), True, id="requeued"),
        pytest.param(REQUEUED, False, id="the same life"),
        pytest.param((8, 100.0, 0), False, id="another record"),
        pytest.param((7, 90.0, 3), False, id="a reused number"),
        pytest.param(None, False, id="never seen"),
    ],
)
def test_a_life_is_the_next_one_after_more_restarts_of_the_same_record(
    before: Life | None, is_next: bool
) -> None:
    assert is_next_life(before, REQUEUED) is is_next
