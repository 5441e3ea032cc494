"""offer_features: what a trained gate reads, by hand."""

import numpy as np
import pytest
from tests.engine.offers import ACROSS, offer, record

from roost_engine.gate.offer_features import CONTEXT_COLUMNS, OFFER_COLUMNS, context_of, offer_of
from roost_engine.prediction.predictors import Predictors


def test_an_offer_across_racks() -> None:
    one = offer(record(gpus=16), ACROSS, 60.0)
    line = dict(zip(OFFER_COLUMNS, offer_of(one, Predictors(), 240.0)[0].tolist(), strict=True))
    assert [line[f"offers_{tier}"] for tier in ("node", "rack", "cluster")] == [0.0, 0.0, 1.0]
    assert line["of_patience"] == 0.25
    assert line["ln_waited"] == pytest.approx(np.log(2.0) / 8.0)
    assert 0.0 < line["speed_frac"] <= 1.0


def test_the_job_and_the_cluster() -> None:
    spec, cluster = record(gpus=16, limit_s=3_600.0).spec, offer(record(), ACROSS, 0.0).cluster
    line = context_of(spec, 16, cluster, Predictors())
    context = dict(zip(CONTEXT_COLUMNS, line.tolist(), strict=True))
    assert context["ln_gpus"] == pytest.approx(np.log1p(16) / 5.0)
    assert (context["limit_known"], context["free_frac"], context["ln_free"]) == (1.0, 0.0, 0.0)
    assert context["ln_limit"] == pytest.approx(np.log1p(60.0) / 8.0)
    assert context["ln_total"] == pytest.approx(np.log1p(32) / 8.0)


def test_of_an_unknown_job_nothing_is_known() -> None:
    cluster = offer(record(), ACROSS, 0.0).cluster
    line = context_of(None, 4, cluster, Predictors())
    context = dict(zip(CONTEXT_COLUMNS, line.tolist(), strict=True))
    assert (context["limit_known"], context["ln_limit"]) == (0.0, 0.0)
    assert context["speed_cluster_frac"] == 1.0
