"""roost_engine.scoring.set_rows: a table that grows, and what newcomers would lose."""

import numpy as np

from roost_engine.scoring.set_rows import SetRows


def vector(talk: float) -> np.ndarray:
    return np.array([talk, 1.0], dtype=np.float32)


def test_rows_are_given_once_and_keep_what_they_have() -> None:
    table = SetRows(2)
    first = table.take(3)
    table.sums[first], table.losses(vector(1), 0)[first] = 7.0, 0.5
    later = [table.take(200) for _ in range(5)]
    assert [(one.start, one.stop) for one in later][-1] == (803, 1003)
    assert (table.sums[first] == 7.0).all()
    assert np.nansum(table.losses(vector(1), 0)) == 3 * 2 * 0.5
    assert not table.is_full


def test_what_was_predicted_of_the_newcomer_asked_about_last_is_kept() -> None:
    known = SetRows(2)
    for talk in range(40):
        known.losses(vector(talk), 0)[:] = talk
        known.losses(vector(0), 0)[:] = 0.0
    assert not known.losses(vector(0), 0).any()
    assert (known.losses(vector(39), 0) == 39).all()
    assert np.isnan(known.losses(vector(1), 0)).all()
    assert np.isnan(known.losses(vector(39), 1)).all()


def test_a_cleared_table_gives_the_same_rows_again_and_knows_no_losses() -> None:
    table = SetRows(2)
    while not table.is_full:
        table.losses(vector(1), 0)[table.take(1024)] = 0.5
    table.clear()
    assert not table.is_full
    assert table.take(3) == slice(0, 3)
    assert np.isnan(table.losses(vector(1), 0)).all()
