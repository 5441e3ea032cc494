"""Gradient-boosted trees that predict one number, as Helios' QSSF does (Hu et al., SC 2021).

They read the user and all that the model beside the history reads, so they know more than QSSF's.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor

from roost_train.runtimes.run_time_jobs import ReplayedJobs


def predict_with_trees(
    jobs: ReplayedJobs, train: NDArray[np.int64], test: NDArray[np.int64], seed: int
) -> NDArray[np.float64]:
    """Fit trees to ln seconds of some jobs, and return the seconds that they expect of others.

    Args:
        jobs: all of them.
        train: positions of the jobs to learn from.
        test: positions of the jobs to predict.
        seed: of everything random.
    """
    columns = np.column_stack([jobs.user_id.astype(np.float32), jobs.features])
    trees = HistGradientBoostingRegressor(
        max_iter=200, learning_rate=0.05, early_stopping=False, random_state=seed
    )
    trees.fit(columns[train], np.log(np.maximum(jobs.run_s[train], 1.0)))
    predicted_s: NDArray[np.float64] = np.exp(trees.predict(columns[test]))
    return predicted_s
