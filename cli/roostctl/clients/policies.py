"""Calls to the daemon's services about policies."""

from functools import cached_property

import grpc

from roost_proto.v1 import policy_pb2 as pb
from roost_proto.v1.policy_pb2_grpc import PoliciesStub, PolicyAdminStub
from roostctl.clients.calls import AdminCaller, CallFailed, Client

EVALUATION_LIMIT_S = 2 * 3_600.0  # two simulations of a month


class PolicyClient(Client):
    """Questions about policies."""

    @cached_property
    def _stub(self) -> PoliciesStub:
        return PoliciesStub(self.channel)

    def list_policies(self) -> pb.ListPoliciesResponse:
        """Return every policy that a slot could have."""
        return self.call(self._stub.ListPolicies, pb.ListPoliciesRequest())

    def show_policies(self, slot: str) -> pb.ShowPoliciesResponse:
        """Return what decides in a slot; of "" in every slot."""
        return self.call(self._stub.ShowPolicies, pb.ShowPoliciesRequest(slot=slot))

    def explain_shadow(self, job_id: str) -> pb.ExplainShadowResponse:
        """Return what the policy in shadow chose for a job; nothing from an older daemon."""
        try:
            return self.call(self._stub.ExplainShadow, pb.ExplainShadowRequest(job_id=job_id))
        except CallFailed as error:
            if error.code is grpc.StatusCode.UNIMPLEMENTED:
                return pb.ExplainShadowResponse()
            raise


class PolicyAdminClient(AdminCaller):
    """Changes of policies."""

    @cached_property
    def _stub(self) -> PolicyAdminStub:
        return PolicyAdminStub(self.channel)

    def shadow(self, name: str, by: str) -> pb.ShowPoliciesResponse:
        """Let a policy decide in shadow; "": none."""
        return self.call(self._stub.Shadow, pb.ShadowRequest(name=name, by=by))

    def evaluate(self, name: str, by: str, last_s: float) -> pb.PolicyEvaluation:
        """Compare a policy with the one that decides."""
        request = pb.EvaluateRequest(name=name, by=by, last_s=last_s)
        limit_s = max(EVALUATION_LIMIT_S, self.timeout_s)
        return self.call(self._stub.Evaluate, request, limit_s)

    def promote(
        self, name: str, by: str, canary_frac: float, force: bool
    ) -> pb.ShowPoliciesResponse:
        """Let a policy decide for a share of the users; 0: for all."""
        request = pb.PromoteRequest(name=name, by=by, canary_frac=canary_frac, force=force)
        return self.call(self._stub.Promote, request)

    def rollback(self, slot: str, by: str) -> pb.ShowPoliciesResponse:
        """Take a promoted policy out of its slot."""
        return self.call(self._stub.Rollback, pb.RollbackRequest(slot=slot, by=by))
