"""Calls to the daemon's services Operator and Admin."""

from functools import cached_property

from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1.operator_pb2_grpc import AdminStub, OperatorStub
from roostctl.clients.calls import AdminCaller, Client


class OperatorClient(Client):
    """Questions of operators."""

    @cached_property
    def _stub(self) -> OperatorStub:
        return OperatorStub(self.channel)

    def get_status(self, ask_slurm: bool = False) -> pb.Status:
        """Return the daemon's state; it may ask Slurm first, which takes seconds at most."""
        return self.call(self._stub.GetStatus, pb.GetStatusRequest(ask_slurm=ask_slurm))

    def list_nodes(self) -> list[pb.Node]:
        """Return all nodes, by name."""
        response = self.call(self._stub.ListNodes, pb.ListNodesRequest())
        return sorted(response.nodes, key=lambda node: node.name)

    def get_node(self, name: str) -> pb.Node:
        """One node."""
        return self.call(self._stub.GetNode, pb.GetNodeRequest(name=name))

    def get_topology(self, node: str) -> pb.Topology:
        """Return how the GPUs and NICs of one node are linked."""
        return self.call(self._stub.GetTopology, pb.GetTopologyRequest(node=node))

    def list_jobs(self, include_ended: bool) -> list[pb.Job]:
        """Return all jobs in the daemon's order, which is Slurm's."""
        request = pb.ListJobsRequest(include_ended=include_ended)
        return list(self.call(self._stub.ListJobs, request).jobs)

    def get_job(self, job_id: str) -> pb.Job:
        """One job."""
        return self.call(self._stub.GetJob, pb.GetJobRequest(job_id=job_id))

    def explain_job(self, job_id: str) -> pb.Explanation:
        """Return one job and how its placement was decided."""
        return self.call(self._stub.ExplainJob, pb.ExplainJobRequest(job_id=job_id))

    def list_timers(self) -> pb.ListTimersResponse:
        """Return how long jobs wait for better GPUs, by class."""
        return self.call(self._stub.ListTimers, pb.ListTimersRequest())

    def get_eta(self, job_id: str) -> pb.GetEtaResponse:
        """Return when a job is expected to start and end; of "" every job that waits."""
        return self.call(self._stub.GetEta, pb.GetEtaRequest(job_id=job_id))


class AdminClient(AdminCaller):
    """Changes of timers."""

    @cached_property
    def _stub(self) -> AdminStub:
        return AdminStub(self.channel)

    def pin_timer(self, name: str, pinned_s: float, by: str) -> pb.Timer:
        """Set the timers of a class by hand."""
        request = pb.PinTimerRequest(name=name, pinned_s=pinned_s, by=by)
        return self.call(self._stub.PinTimer, request)

    def unpin_timer(self, name: str, by: str) -> pb.Timer:
        """Let the gate tune the timers of a class again."""
        return self.call(self._stub.UnpinTimer, pb.UnpinTimerRequest(name=name, by=by))
