"""Jobs that the engine has forgotten are explained from the journal."""

from pathlib import Path

import pytest
from tests.daemon.app.parts import Parts, recording

from roost_engine.domain.events import JobEnded, JobQueued, JobStarted
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.forecast.forecast import Forecast
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import job, share
from roost_proto.v1 import operator_pb2 as pb
from roostd.app.observation.past_jobs import PastJobs
from roostd.rpc.errors import NoForecast
from roostd.rpc.messages.past_jobs import past_explanation
from roostd.rpc.services.operator import OperatorService

ONE = JobId("1")


class Call:
    """A call by TCP: of no known user."""

    def peer(self) -> str:
        return "ipv4:127.0.0.1:4711"


async def test_a_job_is_explained_after_the_engine_has_forgotten_it(tmp_path: Path) -> None:
    parts = Parts("n1")
    state = parts.state
    async with recording(tmp_path) as recorder:
        state.find_past, past = recorder.past, PastJobs(state, recorder.note_past)
        ticket = 0
        for event in (
            JobQueued(at_s=100.0, job=job("1", gpus=2, binding=False)),
            JobStarted(at_s=101.0, job_id=ONE, shares=(share("n1", 5, 6),)),
            JobEnded(at_s=160.0, job_id=ONE),
        ):
            actions = state.engine.step(event)
            ticket = recorder.append(event, actions)
            past.observe(event, actions)
        await recorder.wait_durable(ticket + 1)
        state.engine = Engine(EngineConfig(), Policies())  # roostd was started again
        parts.clock.at_s = 700.0

        told = await past_explanation(state, ONE)
        assert told is not None
        asked = pb.ExplainJobRequest(job_id="1")
        service, context = OperatorService(state), Call()
        assert await service.ExplainJob(asked, context) == told  # type: ignore[arg-type]
        again = await service.GetJob(pb.GetJobRequest(job_id="1"), context)  # type: ignore[arg-type]
        assert again == told.job
        assert await past_explanation(state, JobId("2")) is None
        state.forecast = Forecast(at_s=100.0, play_count=1, jobs={})
        with pytest.raises(NoForecast, match="job 1 has ended"):
            await service.GetEta(pb.GetEtaRequest(job_id="1"), context)  # type: ignore[arg-type]

    assert told.is_from_journal
    assert (told.job.state, told.job.ended_ago_s) == (pb.JOB_STATE_ENDED, 540.0)
    assert list(told.job.allocated[0].gpu_indices) == [5, 6]
    assert told.job.planned[0].node == "n1"
    assert told.policy == "heuristic"
    assert told.candidates[0].why_not == ""
    assert told.decided_ago_s == 600.0
