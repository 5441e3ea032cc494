"""history_state: copies of what was learned, equal by value."""

from dataclasses import replace

import numpy as np

from roost_engine.domain.model import JobId
from roost_engine.prediction.run_time.history_kinds import KindSums, WatchedRun
from roost_engine.prediction.run_time.history_state import LAST_COUNT, HistoryState

RUN = WatchedRun(user_id=7, kinds=(), since_s=1.0, age_s=2.0, speed_frac=1.0, band=3)


def test_nothing_learned_is_the_empty_state() -> None:
    assert HistoryState.of({}, {}) == HistoryState()
    assert hash(HistoryState.of({}, {})) == hash(HistoryState())


def test_the_newest_run_time_comes_first_and_a_missing_one_is_below_zero() -> None:
    sums = {"old": KindSums(), "new": KindSums()}
    sums["old"].last_s, sums["new"].last_s = (10.0, 20.0), (5.0,)
    state = HistoryState.of(sums, {})
    assert state.last_s.shape == (2, LAST_COUNT)
    assert state.last_s.tolist() == [[20.0, 10.0], [5.0, -1.0]]


def test_a_state_does_not_change_with_what_it_was_taken_from() -> None:
    sums, run = KindSums(), replace(RUN)
    state = HistoryState.of({"all": sums}, {JobId("1"): run})
    same = HistoryState.of({"all": sums}, {JobId("1"): run})
    sums.ended += 1.0
    run.band = 9
    assert state == same
    assert state != HistoryState.of({"all": sums}, {JobId("1"): replace(RUN)})
    assert state != HistoryState.of({"all": KindSums()}, {JobId("1"): run})
    assert np.all(state.ended == 0.0)
