"""Tiresias' Gittins index by hand, and what it learns from."""

import pytest
from tests.simulator.hand_worked import running
from tests.simulator.past_run import PastRun

from roost_engine.domain.model import JobId
from roost_sim.information.progress import ProgressTable
from roost_sim.policies.order.gittins import GittinsIndex, gittins_index


def test_gittins_index_by_hand() -> None:
    services = [100.0, 200.0, 1000.0, 4000.0]
    # a = 0, D = 500: two of four end within; E = (100 + 200 + 500 + 500) / 4 = 325;
    # (2/4) / 325 = 2 / 1300.
    assert gittins_index(services, 0.0, 500.0) == pytest.approx(2 / 1300)
    # a = 200: 1000 and 4000 are longer; none ends within 500.
    assert gittins_index(services, 200.0, 500.0) == 0.0
    # a = 600: one of two ends within; E = (400 + 500) / 2; (1/2) / 450 = 1 / 900.
    assert gittins_index(services, 600.0, 500.0) == pytest.approx(1 / 900)
    assert gittins_index(services, 4000.0, 500.0) == 0.0
    assert gittins_index([], 0.0, 500.0) == 0.0


def test_gittins_learns_from_what_has_ended_and_nothing_else() -> None:
    progress = ProgressTable()
    index = GittinsIndex(progress, quantum_gpu_s=500.0)
    new, old = running("1", gpus=1, started_s=1000.0), running("2", gpus=1, started_s=400.0)
    assert index.value(new, 1000.0)[0] == index.value(old, 1000.0)[0] == 0
    progress.past.extend(
        PastRun(JobId(str(n)), 2, ran_s) for n, ran_s in enumerate((50.0, 100.0, 500.0))
    )
    # Services 100, 200, 1000. New: 2 / (100 + 200 + 500) = 1/400. Old, at 500 of its 600: one of
    # one ends within 500 more: 1 / 500.
    assert index.value(new, 1000.0)[0] == pytest.approx(-1 / 400)
    assert index.value(old, 1000.0)[0] == pytest.approx(-1 / 500)
    assert index.next_change([new, old], 1000.0) == 1400.0
