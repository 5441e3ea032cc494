"""What a trained gate reads of an offer: one line for the offer, one for everything else.

Trainer, simulator and engine call this one module. The line of everything else describes the job
and how full the cluster is; the placement slot's trainer reads it too.
"""

from math import log1p

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobSpec
from roost_engine.domain.tier import Tier
from roost_engine.policies.protocols import Offer
from roost_engine.prediction.predictors import Predictors

SCHEMA_VERSION = 1
OFFER_COLUMNS = (
    *(f"offers_{tier.name.lower()}" for tier in Tier),
    "speed_frac",  # expected on the offered tier, as a share of that on one node
    "ln_waited",
    "of_patience",  # of the longest that it may decline, how much it has waited
)
CONTEXT_COLUMNS = (
    "ln_gpus",
    "limit_known",
    "ln_limit",
    *(f"speed_{tier.name.lower()}_frac" for tier in Tier),
    "free_frac",
    "ln_free",
    "ln_total",
)


def context_of(
    job: JobSpec | None, gpu_count: int, cluster: Cluster, predictors: Predictors
) -> NDArray[np.float32]:
    """Return the job and the cluster as a line, float32 [CONTEXT_COLUMNS].

    Args:
        job: None: nothing is known of it.
        gpu_count: of the job.
        cluster: as it is now.
        predictors: say what the job loses on wider tiers.
    """
    total = max(int(cluster.gpu_count[: len(cluster)].sum()), 1)
    limit_s = None if job is None else job.time_limit_s
    return np.array(
        (
            log1p(gpu_count) / 5.0,
            limit_s is not None,
            _ln_time(limit_s or 0.0),
            *(_speed(job, tier, predictors) for tier in Tier),
            cluster.free_gpu_count / total,
            log1p(cluster.free_gpu_count) / 8.0,
            log1p(total) / 8.0,
        ),
        dtype=np.float32,
    )


def offer_of(offer: Offer, predictors: Predictors, most_wait_s: float) -> NDArray[np.float32]:
    """Return an offer as the only option, float32 [1, OFFER_COLUMNS].

    Args:
        offer: what the engine asks the gate.
        predictors: see context_of.
        most_wait_s: how long a job may decline.
    """
    line = (
        *(float(offer.tier is tier) for tier in Tier),
        _speed(offer.job.spec, offer.tier, predictors),
        _ln_time(offer.waited_s),
        min(offer.waited_s / most_wait_s, 1.0),
    )
    return np.array((line,), dtype=np.float32)


def _speed(job: JobSpec | None, tier: Tier, predictors: Predictors) -> float:
    if job is None:
        return 1.0
    speeds = predictors.speed.estimate(job).speeds
    return float(speeds.at(tier) / speeds.at(Tier.NODE))


def _ln_time(seconds: float) -> float:
    return log1p(max(seconds, 0.0) / 60.0) / 8.0
