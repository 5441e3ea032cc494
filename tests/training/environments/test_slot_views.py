"""What an agent reads in the placement and gate slots."""

import numpy as np
import pytest
from tests.training.environments.small_episodes import gangs, halves

from roost_engine.cluster.features import COLUMNS
from roost_engine.gate.offer_features import CONTEXT_COLUMNS, OFFER_COLUMNS
from roost_train.environments.slot_views import PLACEMENT_COLUMNS


def test_an_offer_by_hand() -> None:
    choices = gangs().begin(0).next_choices()
    assert choices is not None
    line = dict(zip(OFFER_COLUMNS, choices.seen.jobs[0].tolist(), strict=True))
    assert [line[f"offers_{tier}"] for tier in ("node", "rack", "cluster")] == [0.0, 0.0, 1.0]
    assert line["ln_waited"] == line["of_patience"] == 0.0
    assert 0.0 < line["speed_frac"] <= 1.0
    context = dict(zip(CONTEXT_COLUMNS, choices.seen.cluster.tolist(), strict=True))
    assert context["free_frac"] == pytest.approx(0.5)
    assert context["ln_gpus"] == pytest.approx(np.log1p(8) / 5.0)
    assert context["limit_known"] == 0.0
    assert context["speed_node_frac"] == 1.0


def test_candidates_have_the_columns_of_a_score_policy() -> None:
    choices = halves().begin(0).next_choices()
    assert choices is not None
    assert PLACEMENT_COLUMNS == COLUMNS
    assert choices.seen.jobs.shape == (12, len(COLUMNS))  # six pairs of GPUs on each of two nodes
    assert np.isfinite(choices.seen.jobs).all()
