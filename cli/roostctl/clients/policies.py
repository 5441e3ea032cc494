"""Calls to the daemon's services about policies."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpc

from roost_proto.v1 import policy_pb2 as pb
from roost_proto.v1.policy_pb2_grpc import PoliciesStub, PolicyAdminStub
from roostctl.clients.calls import CHANNEL_OPTIONS, CallFailed, called

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")

EVALUATION_LIMIT_S = 2 * 3_600.0  # two simulations of a month


class PolicyClient:
    """Questions; each method raises CallFailed and nothing else."""

    def __init__(self, channel: grpc.Channel, address: str, timeout_s: float) -> None:
        self._stub, self._address, self._timeout_s = PoliciesStub(channel), address, timeout_s

    def list_policies(self) -> pb.ListPoliciesResponse:
        """Return every policy that a slot could have."""
        return self._call(self._stub.ListPolicies, pb.ListPoliciesRequest())

    def show_policies(self, slot: str) -> pb.ShowPoliciesResponse:
        """Return what decides in a slot; of "" in every slot."""
        return self._call(self._stub.ShowPolicies, pb.ShowPoliciesRequest(slot=slot))

    def explain_shadow(self, job_id: str) -> pb.ExplainShadowResponse:
        """Return what the policy in shadow chose for a job; nothing from an older daemon."""
        try:
            return self._call(self._stub.ExplainShadow, pb.ExplainShadowRequest(job_id=job_id))
        except CallFailed as error:
            if error.code is grpc.StatusCode.UNIMPLEMENTED:
                return pb.ExplainShadowResponse()
            raise

    def _call(
        self, method: "grpc.UnaryUnaryMultiCallable[_Request, _Response]", request: _Request
    ) -> _Response:
        return called(method, request, self._address, self._timeout_s, "--daemon or ROOST_DAEMON")


class PolicyAdminClient:
    """Changes; each method raises CallFailed and nothing else."""

    def __init__(self, channel: grpc.Channel, address: str, timeout_s: float) -> None:
        self._stub, self._address, self._timeout_s = PolicyAdminStub(channel), address, timeout_s

    def shadow(self, name: str, by: str) -> pb.ShowPoliciesResponse:
        """Let a policy decide in shadow; "": none."""
        return self._call(self._stub.Shadow, pb.ShadowRequest(name=name, by=by))

    def evaluate(self, name: str, by: str, last_s: float) -> pb.PolicyEvaluation:
        """Compare a policy with the one that decides."""
        request = pb.EvaluateRequest(name=name, by=by, last_s=last_s)
        limit_s = max(EVALUATION_LIMIT_S, self._timeout_s)
        return self._call(self._stub.Evaluate, request, limit_s)

    def promote(
        self, name: str, by: str, canary_frac: float, force: bool
    ) -> pb.ShowPoliciesResponse:
        """Let a policy decide for a share of the users; 0: for all."""
        request = pb.PromoteRequest(name=name, by=by, canary_frac=canary_frac, force=force)
        return self._call(self._stub.Promote, request)

    def rollback(self, slot: str, by: str) -> pb.ShowPoliciesResponse:
        """Take a promoted policy out of its slot."""
        return self._call(self._stub.Rollback, pb.RollbackRequest(slot=slot, by=by))

    def _call(
        self,
        method: "grpc.UnaryUnaryMultiCallable[_Request, _Response]",
        request: _Request,
        timeout_s: float | None = None,
    ) -> _Response:
        limit_s = timeout_s or self._timeout_s
        return called(method, request, self._address, limit_s, "--admin or ROOST_ADMIN")


@contextmanager
def connect_policies(address: str, timeout_s: float) -> Iterator[PolicyClient]:
    """Open a channel to the daemon; see `client.connect`."""
    with grpc.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        yield PolicyClient(channel, address, timeout_s)


@contextmanager
def connect_policy_admin(address: str, timeout_s: float) -> Iterator[PolicyAdminClient]:
    """Open a channel to the daemon's socket for changes."""
    with grpc.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        yield PolicyAdminClient(channel, address, timeout_s)
