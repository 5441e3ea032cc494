import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import numpy as np
import pytest
import torch

from roost_engine.queue.selector_columns import CLUSTER_COLUMNS, JOB_COLUMNS
from roost_train.environments.decisions import Decision, DecisionBatch, batches

pytestmark = pytest.mark.torch


def decision(job_count: int, action: int = 0, seed: int = 0) -> Decision:
    rng = np.random.default_rng(seed)
    return Decision(
        jobs=rng.random((job_count, len(JOB_COLUMNS)), dtype=np.float32),
        cluster=rng.random(len(CLUSTER_COLUMNS), dtype=np.float32),
        mask=np.ones(job_count + 1, dtype=np.bool_),
        action=action,
    )


def test_none_is_the_last_of_every_line_of_a_batch() -> None:
    batch = DecisionBatch.of([decision(2, action=2), decision(5, action=4), decision(5, action=5)])
    assert batch.actions.tolist() == [5, 4, 5]
    assert batch.mask[0].tolist() == [True, True, False, False, False, True]
    assert batch.present.sum(dim=1).tolist() == [2, 5, 5]
    assert not batch.jobs[0, 2:].any()


def test_a_batch_takes_each_decision_once_and_is_drawn_by_the_generator() -> None:
    drawn = [decision(1 + place % 7) for place in range(50)]

    def order(seed: int) -> list[int]:
        parts = batches(drawn, 8, torch.Generator().manual_seed(seed))
        return [id(one) for part in parts for one in part]

    assert sorted(order(1)) == sorted(map(id, drawn))
    assert order(1) == order(1)
    assert order(1) != order(2)


def test_decisions_of_other_sizes_and_forbidden_actions_are_refused() -> None:
    good = decision(3)
    with pytest.raises(ValueError, match="other sizes"):
        Decision(good.jobs[:2], good.cluster, good.mask, 0)
    forbidden = good.mask.copy()
    forbidden[1] = False
    with pytest.raises(ValueError, match="action 1 was not allowed"):
        Decision(good.jobs, good.cluster, forbidden, 1)
