"""Both kinds of run look the same to an agent."""

import numpy as np
import pytest
from tests.training.environments.small_episodes import episodes, gangs, halves

from roost_train.environments.decision_run import Choices, DecisionRun
from roost_train.environments.episodes import Episodes
from roost_train.environments.slot_views import SlotInput


@pytest.mark.parametrize("drawn", [episodes(), gangs(), halves()], ids=["order", "gate", "place"])
def test_a_run_is_played_in_the_same_way_whichever_slot_decides(drawn: Episodes) -> None:
    run: DecisionRun = drawn.begin(1)
    assert run.seed == 1
    last_s, count = 0.0, 0
    while (choices := run.next_choices()) is not None:
        assert choices.at_s >= last_s
        assert choices.mask.shape == (choices.none + 1,)
        last_s, count = choices.at_s, count + 1
        run.choose(run.teachers_choice(choices))
    assert count
    assert all(job.ended_s is not None for job in run.finish().jobs)
    run.close()


def test_none_stands_behind_the_last_option() -> None:
    seen = SlotInput(np.zeros((3, 2), dtype=np.float32), np.zeros(1, dtype=np.float32))
    assert Choices(at_s=0.0, seen=seen, mask=np.ones(4, dtype=np.bool_), reward=0.0).none == 3
