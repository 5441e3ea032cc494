"""`roostctl policy`: what it asks, what it shows, and how it exits."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner, Result
from tests.cli.conftest import Run

from roost_proto.v1 import policy_pb2 as pb
from roost_proto.v1 import policy_pb2_grpc as pb_grpc
from roostctl.commands.policy import Share, Span
from roostctl.main import cli

RATIO = pb.PolicyRatio(value=0.9, low=0.8, high=1.0)
FOUND = pb.PolicyEvaluation(
    slot="order",
    job_count=500,
    window_s=604_800.0,
    active=pb.PolicyFigures(policy="order:priority", avg_jct_s=100.0, p99_jct_s=900.0),
    candidate=pb.PolicyFigures(policy="order:las", avg_jct_s=90.0, p99_jct_s=810.0),
    avg_ratio=RATIO,
    p99_ratio=RATIO,
)
SHOWN = pb.ShowPoliciesResponse(
    slots=[
        pb.SlotState(
            slot="order",
            configured="priority",
            active="las",
            promotion=pb.Promotion(
                policy="order:las",
                share_frac=1.0,
                by="alice",
                is_forced=True,
                fault="the file is gone",
                job_count=40,
                observed_lost_frac=0.4,
                other_lost_frac=0.3,
                other_job_count=300,
                predicted_lost_frac=0.35,
                evidence=3.5,
                evidence_limit=100.0,
            ),
            canary=pb.Promotion(policy="order:learned", share_frac=0.1, by="bob"),
            last_rollback=pb.PolicyRollback(policy="order:worst", by="roostd", reason="too slow"),
        )
    ],
    shadow=pb.ShadowState(
        policy="order:learned",
        decision_count=10,
        elsewhere_count=3,
        waiting_count=1,
        expected_gain_s=-60.0,
    ),
    fault="policies.state: damaged",
)


class FakePolicies(pb_grpc.PoliciesServicer, pb_grpc.PolicyAdminServicer):
    """Answers as it was told, and records what it was asked."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.evaluation, self.shown = FOUND, SHOWN

    def ListPolicies(
        self, request: pb.ListPoliciesRequest, context: grpc.ServicerContext
    ) -> pb.ListPoliciesResponse:
        return pb.ListPoliciesResponse(
            policies=[
                pb.PolicyChoice(slot="order", name="las", is_active=True),
                pb.PolicyChoice(slot="order", name="learned", canary_frac=0.1, is_shadow=True),
                pb.PolicyChoice(slot="order", name="priority", is_configured=True),
                pb.PolicyChoice(slot="order", name="bad", identity="onnx:0", fault="it is broken"),
            ]
        )

    def ShowPolicies(
        self, request: pb.ShowPoliciesRequest, context: grpc.ServicerContext
    ) -> pb.ShowPoliciesResponse:
        return self._note(request)

    def ExplainShadow(
        self, request: pb.ExplainShadowRequest, context: grpc.ServicerContext
    ) -> pb.ExplainShadowResponse:
        return pb.ExplainShadowResponse()

    def Shadow(
        self, request: pb.ShadowRequest, context: grpc.ServicerContext
    ) -> pb.ShowPoliciesResponse:
        return self._note(request)

    def Evaluate(
        self, request: pb.EvaluateRequest, context: grpc.ServicerContext
    ) -> pb.PolicyEvaluation:
        self.asked.append(request)
        return self.evaluation

    def Promote(
        self, request: pb.PromoteRequest, context: grpc.ServicerContext
    ) -> pb.ShowPoliciesResponse:
        if request.name == "worst":
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "order:worst: average is 1.3")
        return self._note(request)

    def Rollback(
        self, request: pb.RollbackRequest, context: grpc.ServicerContext
    ) -> pb.ShowPoliciesResponse:
        return self._note(request)

    def _note(self, request: object) -> pb.ShowPoliciesResponse:
        self.asked.append(request)
        return self.shown


@pytest.fixture
def policies(socket_path: Path) -> Iterator[FakePolicies]:
    """Both services at one socket of their own."""
    fake, server = FakePolicies(), grpc.server(ThreadPoolExecutor(max_workers=1))
    pb_grpc.add_PoliciesServicer_to_server(fake, server)
    pb_grpc.add_PolicyAdminServicer_to_server(fake, server)
    server.add_insecure_port(f"unix:{socket_path.with_name('admin.sock')}")
    server.start()
    yield fake
    server.stop(grace=None).wait()


@pytest.fixture
def ask(policies: FakePolicies, socket_path: Path) -> Run:
    """Runs `roostctl policy` with both services at the fake's socket."""
    address = f"unix:{socket_path.with_name('admin.sock')}"

    def asked(*arguments: str, **environ: str) -> Result:
        given = ["--daemon", address, "policy", *arguments]
        told = {"ROOST_ADMIN": address, "SUDO_USER": "alice"} | environ
        return CliRunner().invoke(cli, given, env=told)

    return asked


def test_list_says_what_decides(ask: Run) -> None:
    lines = ask("list").stdout.splitlines()
    assert lines[0].split() == ["SLOT", "POLICY", "DECIDES", "MODEL", "PROBLEM"]
    assert "yes" in lines[1]
    assert "canary, 10% of users, in shadow" in lines[2]
    assert "configured" in lines[3]
    assert lines[4].endswith("it is broken")
    assert json.loads(ask("list", "--json").stdout)["schema"] == "roost.policies/1"


def test_show_tells_what_was_promised_and_what_is_observed(ask: Run) -> None:
    words = " ".join(ask("show").stdout.split())
    assert "order las priority" in words
    assert "by alice, by force" in words
    assert "order:learned for 10% of users" in words
    assert "order:las does not decide: the file is gone" in words
    assert "its 40 jobs lost 40%, the 300 of other users 30%, 35% was predicted" in words
    assert "Evidence against it: 3.5; at 100 it is taken out" in words
    assert "order:learned: no job has ended under it yet." in words
    assert "by roostd: too slow" in words
    assert "of 10 placements it would have made 3 elsewhere and 1 not yet" in words
    assert "end 1 m 00 s earlier" in words
    assert "policies.state: damaged" in words


def test_a_shadow_that_stands_still_says_why(policies: FakePolicies, ask: Run) -> None:
    policies.shown = pb.ShowPoliciesResponse(shadow=pb.ShadowState(policy="p", fault="it died"))
    assert "stands still: it died" in ask("show").stdout


def test_changes_are_asked_for_in_the_callers_name(policies: FakePolicies, ask: Run) -> None:
    for arguments in (
        ("shadow", "las"),
        ("shadow", "--off"),
        ("promote", "las", "--canary", "10%"),
        ("promote", "las", "--force"),
        ("rollback", "order"),
    ):
        assert ask(*arguments).exit_code == 0
    assert policies.asked == [
        pb.ShadowRequest(name="las", by="alice"),
        pb.ShadowRequest(by="alice"),
        pb.PromoteRequest(name="las", by="alice", canary_frac=0.1),
        pb.PromoteRequest(name="las", by="alice", force=True),
        pb.RollbackRequest(slot="order", by="alice"),
    ]


def test_evaluate_shows_both_and_exits_with_1_where_it_may_not_be_promoted(
    policies: FakePolicies, ask: Run
) -> None:
    told = ask("evaluate", "las", "--last", "36h")
    assert told.exit_code == 0
    assert "0.900 (0.800 to 1.000)" in told.stdout
    assert "It may be promoted." in told.stdout
    assert policies.asked == [pb.EvaluateRequest(name="las", by="alice", last_s=129_600.0)]
    policies.evaluation = pb.PolicyEvaluation(refusal="average is worse")
    told = ask("evaluate", "las")
    assert (told.exit_code, "average is worse" in told.stdout) == (1, True)
    assert ask("evaluate", "las", "--json").exit_code == 1


def test_a_refusal_is_shown_with_its_figures(ask: Run) -> None:
    told = ask("promote", "worst")
    assert (told.exit_code, told.stderr) == (1, "roostctl: order:worst: average is 1.3\n")


@pytest.mark.parametrize("arguments", [("shadow",), ("shadow", "las", "--off")])
def test_shadow_wants_a_name_or_off(ask: Run, arguments: tuple[str, ...]) -> None:
    assert ask(*arguments).exit_code == 2


@pytest.mark.parametrize("text", ["0%", "100%", "10", "x%", "-5%", "nan%"])
def test_shares_that_are_none(ask: Run, text: str) -> None:
    assert ask("promote", "las", "--canary", text).exit_code == 2
    assert Share().convert("12.5%", None, None) == 0.125


@pytest.mark.parametrize("text", ["0d", "7", "d", "7 d", "-1d", "1e9d"])
def test_times_that_are_none(ask: Run, text: str) -> None:
    assert ask("evaluate", "las", "--last", text).exit_code == 2
    assert Span().convert("1.5h", None, None) == 5_400.0
