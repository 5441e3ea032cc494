"""Forecasts in the daemon: when they are made, and what is left when they fail."""

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.app.parts import Parts
from tests.daemon.running import config, running

from roost_engine.domain.events import JobQueued
from roost_engine.forecast.forecast import Forecast
from roost_engine.testing import builders
from roost_proto.v1 import operator_pb2 as pb
from roostd.app.forecast.forecast_worker import ForecastTask, WorkerFailed
from roostd.app.forecast.forecast_worker import compute as play
from roostd.app.forecast.forecaster import Forecaster
from roostd.testing.slurm_stand_in import SlurmStandIn


class FakeWorker:
    """Plays in this process, unless it is to fail."""

    def __init__(self) -> None:
        self.tasks = list[ForecastTask]()
        self.fault = ""

    async def compute(self, task: ForecastTask) -> Forecast:
        self.tasks.append(task)
        if self.fault:
            raise WorkerFailed(self.fault)
        return play(task)


def crowded(**settings: Any) -> Parts:
    """One node, a job on it, and many that wait."""
    parts = Parts("n1", **settings)
    for number in range(250):
        parts.state.engine.step(
            JobQueued(at_s=100.0, job=builders.job(f"{number}", gpus=8, submit_s=float(number)))
        )
    return parts


async def test_a_turn_forecasts_every_job_with_the_numbers_of_the_configuration() -> None:
    parts, worker = crowded(eta={"draws": 5, "budget_s": 60.0}), FakeWorker()
    forecaster = Forecaster(parts.state, worker.compute)
    await forecaster.turn()
    assert parts.state.forecast is not None
    assert parts.state.forecast.play_count == 5
    assert len(parts.state.forecast.jobs) == 250
    await forecaster.turn()
    assert [task.seed for task in worker.tasks] == [1, 2]


async def test_a_forecast_is_corrected_beside_the_loop() -> None:
    """Correcting 15,000 jobs takes more than a turn may."""
    parts, threads = crowded(), list[threading.Thread]()

    def correct(found: Forecast) -> Forecast:
        threads.append(threading.current_thread())
        return found

    await Forecaster(parts.state, FakeWorker().compute, correct).turn()
    assert parts.state.forecast is not None
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def test_the_last_forecast_stays_when_the_worker_fails() -> None:
    parts, worker = crowded(), FakeWorker()
    forecaster = Forecaster(parts.state, worker.compute)
    await forecaster.turn()
    last = parts.state.forecast
    worker.fault = "no answer in 30 s"
    await forecaster.turn()
    assert parts.state.forecast is last
    assert parts.state.forecast_fault == "no answer in 30 s"
    worker.fault = ""
    await forecaster.turn()
    assert parts.state.forecast_fault == ""


async def test_a_fault_of_the_forecast_itself_does_not_end_the_daemon() -> None:
    parts = crowded()

    async def broken(task: ForecastTask) -> Forecast:
        raise ValueError(f"{len(task.snapshot.waiting)} jobs")

    await Forecaster(parts.state, broken).turn()
    assert parts.state.forecast_fault == "ValueError: 249 jobs"  # one is placed


async def test_nothing_is_computed_when_forecasts_are_off() -> None:
    parts, worker = crowded(eta={"enabled": False}), FakeWorker()
    parts.state.forecast_fault = "of before a reload"
    await Forecaster(parts.state, worker.compute).turn()
    assert (worker.tasks, parts.state.forecast, parts.state.forecast_fault) == ([], None, "")


@pytest.fixture
def slurm() -> SlurmStandIn:
    return SlurmStandIn([builders.node("n1", 2)])


async def test_a_running_daemon_forecasts_and_survives_the_death_of_its_worker(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    settings = config(tmp_path, eta={"interval_s": 1.0})
    async with running(slurm, settings) as daemon:
        (first,) = slurm.submit(gpus=2)
        await daemon.until_running(first)
        (second,) = slurm.submit(gpus=2)
        state = daemon.daemon.state
        await daemon.until(
            lambda: state.forecast is not None and second in state.forecast.jobs, "a forecast"
        )
        async with daemon.operator() as operator:
            answer = await operator.GetEta(pb.GetEtaRequest())
            assert [eta.job_id for eta in answer.etas] == [second]
            assert answer.etas[0].start.low_s <= answer.etas[0].start.median_s
            of_first = await operator.GetEta(pb.GetEtaRequest(job_id=first))
            assert not of_first.etas[0].HasField("start")
        before_s = state.forecast.at_s if state.forecast else 0.0
        await daemon.daemon.parts.forecast_worker.stop()
        await daemon.until(
            lambda: state.forecast is not None and state.forecast.at_s > before_s,
            "another forecast",
        )
    assert daemon.daemon.parts.forecast_worker.pid is None
