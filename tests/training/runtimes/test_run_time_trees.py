import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn (the train extra)")

from tests.training.run_time_traces import repeating

from roost_train.runtimes.run_time_jobs import replay
from roost_train.runtimes.run_time_trees import predict_with_trees


def test_trees_tell_long_jobs_from_short_ones_and_are_the_same_for_one_seed() -> None:
    jobs = replay(repeating(600))
    train, test = np.arange(300), np.arange(300, 600)
    predicted_s = predict_with_trees(jobs, train, test, seed=0)
    is_long = jobs.run_s[test] > 5_000
    assert np.median(predicted_s[is_long]) > 10 * np.median(predicted_s[~is_long])
    assert np.array_equal(predicted_s, predict_with_trees(jobs, train, test, seed=0))
