"""Names of the jobs and nodes of the fixture `state`, and the start of one."""

from roost_engine.domain.events import JobStarted
from roost_engine.domain.model import JobId, NodeName
from roost_engine.testing.builders import share
from roostd.state import DaemonState

N1, ONE, TWO, NINE = NodeName("n1"), JobId("1"), JobId("2"), JobId("9")


def start(state: DaemonState, job_id: JobId, *gpus: int, cpu_count: int = 1) -> None:
    shares = (share("n1", *gpus, cpu_count=cpu_count),)
    state.engine.step(JobStarted(at_s=101.0, job_id=job_id, shares=shares))
