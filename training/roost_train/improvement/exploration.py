"""Job-aware exploration: in a bad state, the action that mends it is forced at times.

DL2 does so for jobs whose workers and parameter servers are more than tenfold apart. Of the order
slot a state is taken for bad if a job that may be chosen has waited more than ten times as long as
it is expected to run; the action is the job for which that ratio is largest. A policy that has
forgotten such jobs would hardly ever draw them, and never learn what serving them is worth.

What was forced is known from the decision alone. So the probability with which an action was played
is known too, and PPO's ratio is taken to that: an action that was forced on a policy that would not
have drawn it counts little, but is not lost.

Source: Peng et al., DL2, TPDS 2021, section 4.3.
"""

from collections.abc import Sequence
from math import log1p

import numpy as np
from numpy.typing import NDArray

from roost_engine.queue.selector_columns import JOB_COLUMNS, JOB_NUMBERS
from roost_train.environments.decisions import Decision
from roost_train.errors import TrainError

_MOST_RATIO = 10.0  # DL2's, there of workers to parameter servers
_COLUMN = JOB_NUMBERS.index("waited_per_rest") - len(JOB_NUMBERS)  # from the end of a job's line
_THRESHOLD = log1p(_MOST_RATIO) / 8.0  # as selector_features scales the column


def forced_action(jobs: NDArray[np.float32], mask: NDArray[np.bool_]) -> int | None:
    """Return the action that mends a bad state; None: the state is not bad, or there is no choice.

    Args:
        jobs: [job, JOB_COLUMNS].
        mask: bool [job + 1], what may be chosen; the last is "none".

    Raises:
        TrainError: the lines are not those of the order slot.
    """
    if jobs.shape[1] != len(JOB_COLUMNS):
        raise TrainError("only the order slot has job-aware exploration: set explore_frac to 0")
    if mask.sum() < 2 or not len(jobs):
        return None
    waited = np.where(mask[:-1], jobs[:, _COLUMN], -np.inf)
    worst = int(np.argmax(waited))
    return worst if waited[worst] > _THRESHOLD else None


def played_logs(
    logs: NDArray[np.float64], decisions: Sequence[Decision], explore_frac: float
) -> NDArray[np.float64]:
    """Return the log-probability with which each action was played, [decision].

    Args:
        logs: [decision], log-probability of the action by the policy.
        decisions: what was played.
        explore_frac: how often the action of a bad state is forced.
    """
    if not explore_frac:
        return logs
    forced = [forced_action(one.jobs, one.mask) for one in decisions]
    is_bad = np.array([one is not None for one in forced])
    is_forced = np.array(
        [one.action == other for one, other in zip(decisions, forced, strict=True)]
    )
    mixed = (1.0 - explore_frac) * np.exp(logs) + explore_frac * is_forced
    return np.where(is_bad, np.log(np.maximum(mixed, 1e-300)), logs)
