"""The way of a policy to production on a real Slurm, and bad ones that are stopped at each stage.

Two users have a node each. Their jobs come in rounds: one job that takes the node, then short jobs
with a short time limit, then a long one with a long limit. Slurm's order runs the short ones first;
a model that ranks by the time limit makes that order worse, or keeps it.

A gate is asked about jobs of eight GPUs on one node or two, while half of each node is taken: a bad
model declines and waits for a whole node, which does not come.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tests.conftest import missing
from tests.e2e.ledger import has_roostd, until, until_exists, without_node_hooks
from tests.e2e.site.bed import ALICE, BOB, assert_runs, cleared_afterwards, jobs, told

from roost_demo.stack import NodeKind, Stack
from roost_engine.gate.offer_features import CONTEXT_COLUMNS, OFFER_COLUMNS
from roost_formats.models.gate import CONTEXT_NAME, OFFER_NAME, RANK_NAME
from roost_formats.models.manifest import manifest_path
from roost_formats.models.signature import GATE, ORDER
from roost_formats.testing.onnx_models import (
    ModelParts,
    install_kind,
    operation,
    tensor,
    value_info,
)
from roost_proto.v1 import operator_pb2 as pb
from roost_slurm.testing.availability import LocalSlurmUnavailable
from roostctl.main import cli

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

NODES = {ALICE: "n1", BOB: "n2"}
OWN = {"order": "priority", "gate": "open"}
SHARE = "53%"  # has ALICE, user 5 at 0.518, and not BOB, user 9 at 0.551
SHORT_COUNT, SHORT_S = 12, 3  # long beside a busy machine's own delays, or the orders lose alike
COUNTED = 20  # jobs that an evaluation wants at least
SETTINGS = {
    "gate": {"kind": "open"},
    "placement": {"kind": "consolidation"},  # offers two nodes where one is not free
    # Of short jobs that Slurm starts by itself none is compared.
    "slurm": {"standing_pins": False, "shadow_questions": False, "short_run_s": 0},
    "policies": {
        "min_job_count": COUNTED,
        "canary_job_count": 5,
        "loss_margin_frac": 0.0,
        "average_margin_frac": 0.1,
        "p99_margin_frac": 0.2,
        "wait_limit_s": 10.0,
    },
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    """A cluster whose journal holds some rounds, with three models in roostd's folder."""
    try:
        nodes = [NodeKind(name=name, topology="nvswitch8") for name in NODES.values()]
        with Stack(nodes, settings=SETTINGS, amend_plan=without_node_hooks) as running:
            folder = running.folder / "state" / "models"
            folder.mkdir(exist_ok=True)
            install(folder, "keeps", sign=-1.0)
            install(folder, "worst", sign=1.0)
            broken = install(folder, "broken", sign=1.0)
            broken.write_bytes(broken.read_bytes()[:-7])
            install_gate(folder, "declines")
            torn = install_gate(folder, "torn")
            torn.write_bytes(torn.read_bytes()[:-7])
            for _ in range(3):
                run_round(running, long_s=10)
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    """The cluster without jobs and with its own policies, also after a test that failed."""
    with cleared_afterwards(cluster):
        try:
            yield cluster
        finally:
            if has_roostd(cluster):
                policy(cluster, "shadow", "--off")
                for slot_name, own in OWN.items():
                    state = slot(cluster, slot_name)
                    if (state["active"], state["canary"]) != (own, None):
                        policy(cluster, "rollback", slot_name)


def install(folder: Path, name: str, sign: float) -> Path:
    """Install a model that ranks jobs by their time limits, times the sign."""
    parts = ModelParts(
        nodes=[
            operation("MatMul", ["jobs", "of_job"], ["own"]),
            operation("MatMul", ["cluster", "of_cluster"], ["shared"]),
            operation("Add", ["own", "shared"], ["rank"]),
        ],
        weights=[
            tensor("of_job", np.array([[sign]], np.float32)),
            tensor("of_cluster", np.zeros((1, 1), np.float32)),
        ],
        inputs=[value_info("jobs", ["n", 1]), value_info("cluster", [1])],
        outputs=[value_info("rank", ["n", 1])],
    )
    path = install_kind(
        folder,
        parts.encode(),
        ORDER,
        columns={"jobs": ("limit_log",), "cluster": ("free_frac",)},
        canary_inputs={
            "jobs": np.array([[1], [3]], np.float32),
            "cluster": np.array([1], np.float32),
        },
        canary_outputs={"rank": np.array([sign, 3 * sign], np.float32)},
    )
    manifest_path(path).rename(folder / f"{name}.json")
    return path.rename(folder / f"{name}.onnx")


def install_gate(folder: Path, name: str) -> Path:
    """Install a gate that declines every offer: its rank is below 0 on any cluster."""
    widths = len(OFFER_COLUMNS), len(CONTEXT_COLUMNS)
    of_context = np.zeros((widths[1], 1), np.float32)
    of_context[CONTEXT_COLUMNS.index("ln_total")] = -1.0
    parts = ModelParts(
        nodes=[
            operation("MatMul", [OFFER_NAME, "of_offer"], ["own"]),
            operation("MatMul", [CONTEXT_NAME, "of_context"], ["shared"]),
            operation("Add", ["own", "shared"], [RANK_NAME]),
        ],
        weights=[
            tensor("of_offer", np.zeros((widths[0], 1), np.float32)),
            tensor("of_context", of_context),
        ],
        inputs=[
            value_info(OFFER_NAME, ["n", widths[0]]),
            value_info(CONTEXT_NAME, ["n", widths[1]]),
        ],
        outputs=[value_info(RANK_NAME, ["n", 1])],
    )
    path = install_kind(
        folder,
        parts.encode(),
        GATE,
        columns={OFFER_NAME: OFFER_COLUMNS, CONTEXT_NAME: CONTEXT_COLUMNS},
        canary_inputs={
            OFFER_NAME: np.ones((2, widths[0]), np.float32),
            CONTEXT_NAME: np.ones((2, widths[1]), np.float32),
        },
        canary_outputs={RANK_NAME: np.full(2, -1.0, np.float32)},
    )
    manifest_path(path).rename(folder / f"{name}.json")
    return path.rename(folder / f"{name}.onnx")


def run_round(stack: Stack, long_s: int) -> None:
    """Run a round of both users; their jobs all wait for the first one of each."""
    may_end = stack.slurm.folder.root / "work" / f"may-end-{time.monotonic_ns()}"
    script = f"#!/bin/sh\n{until_exists(may_end)}\n"
    for user, node in NODES.items():
        stack.slurm.submit("-c1", "-w", node, "-t2", "--gres=gpu:8", script=script, user=user)
    for user, node in NODES.items():
        send(stack, user, node, "-t1", "--gres=gpu:1", f"--array=1-{SHORT_COUNT}", seconds=SHORT_S)
        send(stack, user, node, "-t30", "--gres=gpu:8", seconds=long_s)
    others_count = len(NODES) * (SHORT_COUNT + 1)
    until(lambda: status(stack).waiting_job_count >= others_count, "roostd knows them all")
    may_end.touch()
    until(lambda: not jobs(stack.slurm), "the round is over", 120.0)


def send(stack: Stack, user: str, node: str, *options: str, seconds: int) -> str:
    script = f"#!/bin/sh\nsleep {seconds}\n"
    return stack.slurm.submit("-c1", "-w", node, *options, script=script, user=user)


def policy(stack: Stack, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--daemon", stack.operator_address, "policy", *arguments])


def order(stack: Stack) -> dict[str, object]:
    """The state of the order slot."""
    return slot(stack, "order")


def slot(stack: Stack, name: str) -> dict[str, object]:
    """The state of a slot."""
    (found,) = json.loads(policy(stack, "show", name, "--json").stdout)["slots"]
    return dict(found)


def audited(stack: Stack) -> list[dict[str, object]]:
    path = stack.folder / "state" / "audit.log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.timeout(240)
def test_a_model_that_is_broken_is_refused_by_the_loader(stack: Stack) -> None:
    for command in (["shadow"], ["evaluate"], ["promote", "--force"]):
        told = policy(stack, *command, "broken")
        assert told.exit_code == 1, told.output
        assert "order:broken cannot be loaded" in told.stderr
    listed = json.loads(policy(stack, "list", "--json").stdout)["policies"]
    (found,) = [one for one in listed if one["name"] == "broken"]
    assert found["fault"]
    assert order(stack)["active"] == "priority"


@pytest.mark.timeout(500)
def test_a_bad_policy_is_refused_with_the_figures_and_rolled_back_when_forced(
    stack: Stack,
) -> None:
    told = policy(stack, "evaluate", "worst", "--last", "1h", "--json")
    assert told.exit_code == 1, told.output
    found = json.loads(told.stdout)
    assert found["job_count"] >= 50
    assert found["avg_ratio"]["value"] > 1.1, found
    assert "average completion time is" in found["refusal"]
    refused = policy(stack, "promote", "worst", "--canary", SHARE)
    assert refused.exit_code == 1
    assert "average completion time is" in refused.stderr
    assert order(stack)["canary"] is None

    assert policy(stack, "promote", "worst", "--canary", SHARE, "--force").exit_code == 0
    assert order(stack)["canary"] is not None
    for _ in range(8):
        run_round(stack, long_s=20)
        print(order(stack)["canary"])  # shown where the test fails
        if order(stack)["canary"] is None:
            break
    state = order(stack)
    assert state["canary"] is None, state
    assert state["last_rollback"]["by"] == "roostd"  # type: ignore[index]
    assert "jobs lost" in str(state["last_rollback"]["reason"])  # type: ignore[index]
    last = audited(stack)[-1]
    assert (last["action"], last["policy"]) == ("roll_back_policy", "order:worst")


@pytest.mark.timeout(300)
def test_a_sound_policy_goes_from_shadow_to_all_users_and_back(stack: Stack) -> None:
    before_count = len(audited(stack))
    assert policy(stack, "shadow", "keeps").exit_code == 0
    run_round(stack, long_s=4)
    every = 2 * (SHORT_COUNT + 2)
    until(
        lambda: shadow(stack)["decision_count"] >= every, "the shadow has decided about every job"
    )

    told = policy(stack, "evaluate", "keeps", "--last", "1h")
    assert told.exit_code == 0, told.output
    assert "It may be promoted." in told.stdout
    early = policy(stack, "promote", "keeps")
    assert early.exit_code == 1
    assert "0 jobs have ended under it as a canary, want 5" in early.stderr

    assert policy(stack, "promote", "keeps", "--canary", SHARE).exit_code == 0
    run_round(stack, long_s=4)
    until(lambda: watched(stack, "canary") >= 5, "the canary's jobs are counted")
    assert policy(stack, "promote", "keeps").exit_code == 0
    assert order(stack)["active"] == "keeps"

    stack.stop_roostd()
    stack.start_roostd()
    assert order(stack)["active"] == "keeps"
    run_round(stack, long_s=2)
    until(lambda: watched(stack, "promotion") > 0, "its jobs are counted after the restart too")

    assert policy(stack, "rollback", "order").exit_code == 0
    assert order(stack)["active"] == "priority"
    lines = audited(stack)[before_count:]
    actions = [line["action"] for line in lines if line.get("policy") == "order:keeps"]
    assert actions == [
        "evaluate_policy",
        "promote_policy_refused",
        "promote_policy",
        "promote_policy",
        "roll_back_policy",
    ]


@pytest.mark.timeout(300)
def test_a_bad_gate_is_stopped_at_each_stage(stack: Stack) -> None:
    before_count = len(audited(stack))
    torn = policy(stack, "promote", "gate:torn", "--force")
    assert torn.exit_code == 1
    assert "gate:torn cannot be loaded" in torn.stderr

    began_s = time.monotonic()
    assert policy(stack, "shadow", "gate:declines").exit_code == 0
    blockers = [
        send(stack, BOB, node, "-t30", "--gres=gpu:4", seconds=600) for node in NODES.values()
    ]
    assert_runs(stack, *blockers)
    for _ in range(3):  # the gate is asked about these alone; the others are there to be counted
        send_spread(stack, BOB)
    until(lambda: sorted(jobs(stack.slurm)) == sorted(blockers), "they ran beside the blockers")
    send(stack, BOB, NODES[BOB], "-t1", "--gres=gpu:1", f"--array=1-{COUNTED}", seconds=0)
    until(lambda: sorted(jobs(stack.slurm)) == sorted(blockers), "the others ran")
    until(lambda: live_count(stack) == len(blockers), "roostd has seen them end")
    until(lambda: shadow(stack)["waiting_count"] >= 3, "the shadow would have declined the three")
    last = f"{time.monotonic() - began_s + 1:.0f}s"  # a longer past would outweigh these few
    found = policy(stack, "evaluate", "gate:declines", "--last", last)
    assert found.exit_code == 1, found.output
    refused = policy(stack, "promote", "gate:declines", "--canary", SHARE)
    assert refused.exit_code == 1
    assert "completion time is" in refused.stderr
    assert slot(stack, "gate")["canary"] is None

    # By force it decides for its share of the users only, until one of their jobs waits too long.
    assert policy(stack, "promote", "gate:declines", "--canary", SHARE, "--force").exit_code == 0
    declined = send_spread(stack, ALICE)
    until(lambda: "waits for a closer place" in told(stack, declined).reason, "ALICE's job waits")
    taken = send_spread(stack, BOB)
    until(lambda: taken not in jobs(stack.slurm), "BOB's job ran")
    assert_taken_out(stack, declined)

    # By force for all users, through a restart of roostd.
    assert policy(stack, "promote", "gate:declines", "--force").exit_code == 0
    stack.stop_roostd()
    stack.start_roostd()
    assert slot(stack, "gate")["active"] == "declines"
    declined = send_spread(stack, BOB)
    until(lambda: "waits for a closer place" in told(stack, declined).reason, "BOB's job waits")
    assert_taken_out(stack, declined)
    stack.slurm.run("scancel", *blockers)
    lines = [one for one in audited(stack)[before_count:] if one.get("policy") == "gate:declines"]
    assert [(one["action"], one["by"]) for one in lines] == [
        ("shadow_policy", "root"),
        ("evaluate_policy", "root"),
        ("promote_policy_refused", "root"),
        ("promote_policy", "root"),
        ("roll_back_policy", "roostd"),
        ("promote_policy", "root"),
        ("roll_back_policy", "roostd"),
    ]


def assert_taken_out(stack: Stack, declined: str) -> None:
    """Wait until roostd itself takes the gate out for a job that waits, and the job has run."""

    def is_out() -> bool:
        state = slot(stack, "gate")
        return state["active"] == "open" and state["canary"] is None

    until(is_out, "the gate is taken out")
    rollback = slot(stack, "gate")["last_rollback"]
    assert isinstance(rollback, dict)
    assert rollback["by"] == "roostd"
    assert f"job {declined} has waited" in rollback["reason"]
    until(lambda: declined not in jobs(stack.slurm), "the job ran")


def send_spread(stack: Stack, user: str) -> str:
    """Submit a job of eight GPUs on one node, or on two."""
    script = "#!/bin/sh\nsleep 0\n"
    return stack.slurm.submit("--gpus=8", "-N1-2", "-n2", "-t1", script=script, user=user)


def live_count(stack: Stack) -> int:
    """The jobs that wait or run, as roostd knows them."""
    told = status(stack)
    return told.waiting_job_count + told.running_job_count


def status(stack: Stack) -> pb.Status:
    return stack.operator().GetStatus(pb.GetStatusRequest(), timeout=60.0)


def shadow(stack: Stack) -> dict[str, int]:
    """The state of the policy in shadow."""
    return dict(json.loads(policy(stack, "show", "--json").stdout)["shadow"])


def watched(stack: Stack, what: str) -> int:
    found = order(stack)[what]
    assert isinstance(found, dict)
    return int(found["job_count"])
