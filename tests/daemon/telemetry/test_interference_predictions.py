"""roostd.telemetry.interference_predictions: which model is asked, and what it answers."""

import pytest
from tests.daemon.telemetry.test_progress import running
from tests.engine.scoring.test_neighbours import FakeInterference

from roost_engine.domain.errors import PolicyError
from roost_engine.domain.events import JobQueued, JobStarted, NodeSeen
from roost_engine.domain.job_kind import kind_of
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.prediction.interference.interference_model import PriorModel
from roost_engine.scoring.neighbours import NeighbourScore
from roost_engine.testing.builders import job, node, share
from roostd.telemetry.interference_predictions import InterferencePredictions


async def test_the_shipped_model_is_asked_where_no_score_of_neighbours_decides() -> None:
    engine, predictions = running("1", "2"), InterferencePredictions()
    assert predictions.of(engine, engine.record(JobId("1"))) is None
    assert (await predictions.ready(engine)).startswith("onnx:")
    found = predictions.of(engine, engine.record(JobId("1")))
    assert found is not None
    assert found.beside == ((kind_of(engine.record(JobId("2")).spec), "nic"),)
    assert found.placement == "node"
    assert found.mean >= 0
    assert found.spread > 0
    assert predictions.fault == ""


async def test_without_its_file_the_prior_answers_and_the_fault_is_said() -> None:
    engine = running("1", "2")
    predictions = InterferencePredictions(lambda: (PriorModel(), "no such file"))
    assert await predictions.ready(engine) == "prior"
    found = predictions.of(engine, engine.record(JobId("1")))
    assert found is not None
    assert found.mean == 0.0
    assert predictions.fault == "no such file"


@pytest.mark.parametrize("fails", [False, True])
async def test_a_score_in_service_is_asked_for_its_own_predictions(fails: bool) -> None:
    fake = FakeInterference()
    engine = Engine(EngineConfig(), Policies(score=NeighbourScore(fake)))
    engine.step(NodeSeen(at_s=0.0, node=node("n1", 8, cpu_count=64)))
    for at in range(2):
        engine.step(JobQueued(at_s=0.0, job=job(str(at), gpus=2)))
        shares = (share("n1", 2 * at, 2 * at + 1),)
        engine.step(JobStarted(at_s=1.0, job_id=JobId(str(at)), shares=shares))
    predictions = InterferencePredictions()
    assert await predictions.ready(engine) == "fake"
    fake.fails = PolicyError("too slow") if fails else None
    found = predictions.of(engine, engine.record(JobId("0")))
    assert (found is None) == fails
    assert predictions.fault == ("too slow" if fails else "")
