"""The Operator service: queries of people and dashboards. Changes are in rpc.services.admin."""

from contextlib import suppress

from roost_engine.domain.errors import UnknownJob, UnknownNode
from roost_engine.domain.model import JobId, NodeName
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import operator_pb2_grpc as pb_grpc
from roostd.ops.slices import Readings
from roostd.rpc.access.roles import Access, EveryJob
from roostd.rpc.access.socket_front import uid_of
from roostd.rpc.errors import Context, NoForecast
from roostd.rpc.messages import daemon_status, eta, explanations, jobs, nodes, timers
from roostd.rpc.messages.outlook import outlooks
from roostd.rpc.messages.past_jobs import past_explanation
from roostd.rpc.services.job_hints import unknown_job
from roostd.state import DaemonState


class OperatorService(pb_grpc.OperatorServicer):
    """Answers from the daemon's present state.

    Args:
        state: the daemon's state.
        access: whose jobs a caller may see. A job that it may not see is unknown to it.
    """

    def __init__(self, state: DaemonState, access: Access | None = None) -> None:
        self._state, self._access = state, access or EveryJob()
        self._readings = Readings()
        self._short = Readings()  # of one job, one node or counts: they wait for no long list

    async def GetStatus(self, request: pb.GetStatusRequest, context: Context) -> pb.Status:
        """See operator.proto."""
        ask = self._state.ask_slurm
        is_silent = request.ask_slurm and ask is not None and not await ask()
        async with self._short.begin(uid_of(context)):
            found = daemon_status.status(self._state)
        job_id, owner = JobId(found.longest_beyond_slurm_job_id), self._access.only_owner(context)
        if owner is not None and self._state.user_of(job_id) != owner:
            found.longest_beyond_slurm_job_id = ""
        if is_silent:
            found.slurm_fault = found.slurm_fault or "slurmctld did not answer within seconds"
        return found

    async def ListNodes(
        self, request: pb.ListNodesRequest, context: Context
    ) -> pb.ListNodesResponse:
        """See operator.proto."""
        state, answer = self._state, pb.ListNodesResponse()
        async with self._readings.begin(uid_of(context)) as slices:
            held = nodes.holders(state)
            async for name in slices.over(nodes.node_names(state)):
                with suppress(UnknownNode):  # Slurm has dropped it meanwhile
                    answer.nodes.append(nodes.node(state, name, held))
        return answer

    async def GetNode(self, request: pb.GetNodeRequest, context: Context) -> pb.Node:
        """See operator.proto."""
        async with self._short.begin(uid_of(context)):
            held = nodes.holders(self._state)
            return nodes.node(self._state, NodeName(request.name), held)

    async def GetTopology(self, request: pb.GetTopologyRequest, context: Context) -> pb.Topology:
        """See operator.proto."""
        return nodes.topology(self._state, NodeName(request.node))

    async def ListJobs(self, request: pb.ListJobsRequest, context: Context) -> pb.ListJobsResponse:
        """See operator.proto."""
        owner, answer = self._access.only_owner(context), pb.ListJobsResponse()
        async with self._readings.begin(uid_of(context)) as slices:
            turns = {job_id: turn async for job_id, turn in slices.over(outlooks(self._state))}
            found = jobs.jobs(self._state, request.include_ended, turns, owner)
            async for job in slices.over(found):
                answer.jobs.append(job)
        return answer

    async def GetJob(self, request: pb.GetJobRequest, context: Context) -> pb.Job:
        """See operator.proto."""
        try:
            async with self._short.begin(uid_of(context)):
                return jobs.job(self._state, self._visible(request.job_id, context))
        except UnknownJob:
            past = await self._past(request.job_id, context)
            if past is None:
                raise self._unknown(request.job_id, context) from None
            return past.job

    async def ExplainJob(self, request: pb.ExplainJobRequest, context: Context) -> pb.Explanation:
        """See operator.proto."""
        try:
            async with self._short.begin(uid_of(context)):
                visible = self._visible(request.job_id, context)
                return explanations.explanation(self._state, visible)
        except UnknownJob:
            past = await self._past(request.job_id, context)
            if past is None:
                raise self._unknown(request.job_id, context) from None
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
        if request.job_id:
            try:
                return eta.response(self._state, self._visible(request.job_id, context))
            except UnknownJob:
                if await self._past(request.job_id, context) is not None:
                    raise NoForecast(f"job {request.job_id} has ended") from None
                raise self._unknown(request.job_id, context) from None
        owner = self._access.only_owner(context)
        async with self._readings.begin(uid_of(context)) as slices:
            answer = eta.response(self._state, None, owner)  # counts the jobs: in a turn of its own
            await slices.give_way()
            async for one in slices.over(eta.etas(self._state, owner)):
                answer.etas.append(one)
        return answer

    def _visible(self, job_id: str, context: Context) -> JobId:
        """Return the id of a job that the caller may see.

        Raises:
            UnknownJob: there is no such job, or the caller may not see it: the same error for both.
        """
        owner, known = self._access.only_owner(context), JobId(job_id)
        if owner is not None and self._state.user_of(known) != owner:
            raise UnknownJob(job_id)
        return known

    def _unknown(self, job_id: str, context: Context) -> UnknownJob:
        """Return the error that says what else the caller may have meant."""
        owner = self._access.only_owner(context)
        return unknown_job(
            self._state,
            job_id,
            lambda one: owner is None or self._state.user_of(one) == owner,
            sees_all=owner is None,
        )

    async def _past(self, job_id: str, context: Context) -> pb.Explanation | None:
        """Return what the journal knows of a job that the caller may see; None: nothing."""
        past = await past_explanation(self._state, JobId(job_id))
        owner = self._access.only_owner(context)
        if past is None or (owner is not None and not _is_of(past.job, owner)):
            return None
        return past


def _is_of(job: pb.Job, owner: int) -> bool:
    return job.HasField("user_id") and job.user_id == owner
