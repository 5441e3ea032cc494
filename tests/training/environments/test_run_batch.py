"""Several simulations side by side behave as each alone."""

import numpy as np
from tests.training.environments.small_episodes import episodes

from roost_train.environments.run_batch import ChoiceBatch, RunBatch


def first_allowed(batch: RunBatch) -> list[int]:
    return [int(choices.mask.argmax()) for choices in batch.choices]


def test_a_batch_continues_with_the_next_seed_of_each_simulation() -> None:
    batch = RunBatch(episodes(job_count=12), seeds=(0, 1))
    ends = 0
    for _ in range(80):
        ends += sum(step.is_last for step in batch.step(first_allowed(batch)))
    assert ends > 2
    assert [seed % 2 for seed in batch.seeds] == [0, 1]
    assert sum(batch.seeds) >= 1 + 2 * ends


def test_rewards_of_a_batch_are_those_of_each_run_alone() -> None:
    together = RunBatch(episodes(job_count=12), seeds=(4, 5))
    alone = RunBatch(episodes(job_count=12), seeds=(4,))
    for _ in range(8):
        both = together.step(first_allowed(together))
        (one,) = alone.step(first_allowed(alone))
        if one.is_last:
            break
        assert both[0] == one


def test_lines_without_a_job_are_masked() -> None:
    batch = RunBatch(episodes(), seeds=(0, 1, 2))
    for _ in range(30):
        batch.step(first_allowed(batch))
    arrays = ChoiceBatch.of(batch.choices)
    counts = [len(choices.seen.jobs) for choices in batch.choices]
    assert arrays.present.sum(axis=1).tolist() == counts
    assert not arrays.mask[:, :-1][~arrays.present].any()
    assert arrays.jobs.shape[:2] == (3, max(counts))
    for place, choices in enumerate(batch.choices):
        assert arrays.action(place, arrays.mask.shape[1] - 1) == choices.none
        assert np.array_equal(arrays.mask[place, : counts[place]], choices.mask[:-1])
