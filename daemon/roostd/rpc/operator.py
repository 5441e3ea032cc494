"""The Operator service: queries of people and dashboards. Changes are in rpc.admin."""

from roost_engine.domain.errors import UnknownJob
from roost_engine.domain.model import JobId, NodeName
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import operator_pb2_grpc as pb_grpc
from roostd.rpc import convert, eta, jobs, timers
from roostd.rpc.errors import Context
from roostd.rpc.past_jobs import past_explanation
from roostd.state import DaemonState


class OperatorService(pb_grpc.OperatorServicer):
    """Answers from the daemon's present state."""

    def __init__(self, state: DaemonState) -> None:
        self._state = state

    async def GetStatus(self, request: pb.GetStatusRequest, context: Context) -> pb.Status:
        """See operator.proto."""
        status, ask = convert.status, self._state.ask_slurm
        if not request.ask_slurm or ask is None or await ask():
            return status(self._state)
        found = status(self._state)
        found.slurm_fault = found.slurm_fault or "slurmctld did not answer within seconds"
        return found

    async def ListNodes(
        self, request: pb.ListNodesRequest, context: Context
    ) -> pb.ListNodesResponse:
        """See operator.proto."""
        held = convert.holders(self._state)
        return pb.ListNodesResponse(
            nodes=[
                convert.node(self._state, name, held) for name in convert.node_names(self._state)
            ]
        )

    async def GetNode(self, request: pb.GetNodeRequest, context: Context) -> pb.Node:
        """See operator.proto."""
        held = convert.holders(self._state)
        return convert.node(self._state, NodeName(request.name), held)

    async def GetTopology(self, request: pb.GetTopologyRequest, context: Context) -> pb.Topology:
        """See operator.proto."""
        return convert.topology(self._state, NodeName(request.node))

    async def ListJobs(self, request: pb.ListJobsRequest, context: Context) -> pb.ListJobsResponse:
        """See operator.proto."""
        return pb.ListJobsResponse(jobs=jobs.jobs(self._state, request.include_ended))

    async def GetJob(self, request: pb.GetJobRequest, context: Context) -> pb.Job:
        """See operator.proto."""
        job_id = JobId(request.job_id)
        try:
            return jobs.job(self._state, job_id)
        except UnknownJob:
            past = await past_explanation(self._state, job_id)
            if past is None:
                raise
            return past.job

    async def ExplainJob(self, request: pb.ExplainJobRequest, context: Context) -> pb.Explanation:
        """See operator.proto."""
        job_id = JobId(request.job_id)
        try:
            return convert.explanation(self._state, job_id)
        except UnknownJob:
            past = await past_explanation(self._state, job_id)
            if past is None:
                raise
            return past

    async def ListTimers(
        self, request: pb.ListTimersRequest, context: Context
    ) -> pb.ListTimersResponse:
        """See operator.proto."""
        return pb.ListTimersResponse(
            gate=self._state.config.choice.in_effect.gate, timers=timers.every(self._state)
        )

    async def GetEta(self, request: pb.GetEtaRequest, context: Context) -> pb.GetEtaResponse:
        """See operator.proto."""
        return eta.response(self._state, JobId(request.job_id) if request.job_id else None)
