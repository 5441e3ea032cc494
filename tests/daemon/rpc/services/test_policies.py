"""rpc.services.policies: what they answer and refuse, through a running daemon's sockets."""

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from tests.daemon.app.promotion.test_policy_desk import FakeEvaluator, audited, evaluation
from tests.daemon.running import Running, config, running

from roost_engine.testing import builders
from roost_proto.v1 import policy_pb2 as pb
from roost_proto.v1 import policy_pb2_grpc as pb_grpc
from roostd.testing.slurm_stand_in import SlurmStandIn


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(SlurmStandIn([builders.node("n1")]), config(tmp_path)) as found:
        found.daemon.parts.desk._evaluator = FakeEvaluator(evaluation())
        yield found


@pytest.fixture
async def admin(daemon: Running) -> AsyncIterator["pb_grpc.PolicyAdminAsyncStub"]:
    async with grpc.aio.insecure_channel(f"unix:{daemon.config.admin_socket}") as channel:
        yield pb_grpc.PolicyAdminStub(channel)


@pytest.fixture
async def operator(daemon: Running) -> AsyncIterator["pb_grpc.PoliciesAsyncStub"]:
    async with grpc.aio.insecure_channel(f"unix:{daemon.config.operator_socket}") as channel:
        yield pb_grpc.PoliciesStub(channel)


async def test_the_whole_way(
    admin: "pb_grpc.PolicyAdminAsyncStub",
    operator: "pb_grpc.PoliciesAsyncStub",
    tmp_path: Path,
) -> None:
    found = await admin.Evaluate(pb.EvaluateRequest(name="las", by="ann", last_s=600.0))
    assert (found.job_count, found.avg_ratio.high, found.refusal) == (500, 0.95, "")
    assert (found.active.policy, found.candidate.policy) == ("order:priority", "order:las")
    shown = await admin.Promote(pb.PromoteRequest(name="las", by="ann", canary_frac=0.25))
    (order,) = [slot for slot in shown.slots if slot.slot == "order"]
    assert (order.active, order.canary.share_frac) == ("priority", 0.25)
    assert order.canary.predicted_lost_frac == pytest.approx(0.3)
    assert order.last_evaluation.job_count == 500
    await admin.Promote(pb.PromoteRequest(name="las", by="ann", force=True))
    (only,) = (await operator.ShowPolicies(pb.ShowPoliciesRequest(slot="order"))).slots
    assert (only.active, only.configured, only.promotion.is_forced) == ("las", "priority", True)
    listed = (await operator.ListPolicies(pb.ListPoliciesRequest())).policies
    assert {one.name for one in listed if one.is_active and one.slot == "order"} == {"las"}
    assert {one.name for one in listed if one.is_configured and one.slot == "order"} == {"priority"}
    after = await admin.Rollback(pb.RollbackRequest(by="ann"))
    (order,) = [slot for slot in after.slots if slot.slot == "order"]
    assert (order.active, order.last_rollback.reason) == ("priority", "asked for")
    assert audited(tmp_path)[-1]["uid"] is not None


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (pb.PromoteRequest(name="nothing"), grpc.StatusCode.NOT_FOUND),
        (pb.PromoteRequest(name="las"), grpc.StatusCode.FAILED_PRECONDITION),
        (pb.PromoteRequest(name="las", canary_frac=1.5), grpc.StatusCode.NOT_FOUND),
        (pb.PromoteRequest(name="las", canary_frac=float("nan")), grpc.StatusCode.NOT_FOUND),
        (pb.EvaluateRequest(name="las", last_s=-1.0), grpc.StatusCode.NOT_FOUND),
        (pb.RollbackRequest(slot="cpu"), grpc.StatusCode.NOT_FOUND),
        (pb.RollbackRequest(slot="gate"), grpc.StatusCode.FAILED_PRECONDITION),
        (pb.ShadowRequest(name="none"), grpc.StatusCode.NOT_FOUND),
    ],
    ids=str,
)
async def test_what_is_refused(
    admin: "pb_grpc.PolicyAdminAsyncStub", request_: object, code: grpc.StatusCode
) -> None:
    name = type(request_).__name__.removesuffix("Request")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await getattr(admin, name)(request_)
    assert refused.value.code() is code


async def test_changes_are_not_served_on_the_operators_socket(daemon: Running) -> None:
    async with grpc.aio.insecure_channel(f"unix:{daemon.config.operator_socket}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await pb_grpc.PolicyAdminStub(channel).Rollback(pb.RollbackRequest())
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_job_without_a_shadow_is_not_known(operator: "pb_grpc.PoliciesAsyncStub") -> None:
    assert not (await operator.ExplainShadow(pb.ExplainShadowRequest(job_id="1"))).is_known
