"""What neighbours cost a running job: reported beside a partner, expected of it, or predicted."""

from dataclasses import replace

import pytest
from tests.daemon.app.parts import Parts

from roost_engine.domain.events import JobQueued, JobStarted, SpeedSeen
from roost_engine.domain.model import JobId
from roost_engine.plugins.plugins import Plugins
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.sharing.pairs import PairSpeed, SharingConfig
from roost_engine.testing.builders import job, share
from roostd.app.observation.neighbour_losses import lost_frac
from roostd.telemetry.speed_source import Expected

SHARING = SharingConfig(pairs=(PairSpeed("a", "a", 0.9),))


def running(*seats: int) -> Parts:
    """One job on each of these seats of GPU 0, numbered from 1."""
    parts = Parts("n1", policies=Plugins(sharing=SHARING).policies(HeuristicScore()))
    for number, seat in enumerate(seats, start=1):
        spec = replace(job(str(number)), model="a", shares_gpus=True, gpu_memory_bytes=1)
        parts.state.engine.step(JobQueued(at_s=0.0, job=spec))
        shares = (replace(share("n1", 0), seat=seat),)
        started = JobStarted(at_s=0.0, job_id=spec.job_id, shares=shares)
        parts.state.engine.step(started)
    return parts


def test_beside_a_partner_it_is_what_the_table_expects_or_the_job_reports() -> None:
    state = running(0, 1).state
    assert lost_frac(state, JobId("1")) == pytest.approx(0.1)
    state.engine.step(SpeedSeen(at_s=1.0, job_id=JobId("1"), speed_frac=0.6))
    assert lost_frac(state, JobId("1")) == pytest.approx(0.4)


def test_alone_on_its_gpus_it_is_what_was_predicted_when_it_reported() -> None:
    state = running(0).state
    assert lost_frac(state, JobId("1")) is None
    record = state.engine.record(JobId("1"))
    for at_s in (100.0, 200.0):
        user_id = record.spec.user_id
        state.progress.report(record, user_id, int(at_s), at_s, lambda: Expected(0.1, 0.3))
    assert lost_frac(state, JobId("1")) == pytest.approx(0.0952, abs=1e-3)
    record.started_s = 300.0  # another run, which has not reported
    assert lost_frac(state, JobId("1")) is None


def test_of_a_job_that_is_not_under_roost_nothing_is_known() -> None:
    assert lost_frac(running().state, JobId("1")) is None
