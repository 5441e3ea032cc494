"""A fake roostd, the CLI that asks it, and golden files."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner, Result

from roost_proto.v1 import operator_pb2 as pb
from roostctl.main import cli
from roostctl.testing import (
    FakeOperator,
    build_candidate,
    build_job,
    build_node,
    build_slots,
    build_topology,
    serve,
)

GOLDEN = Path(__file__).parent / "golden"
GATE_FAULT = "uplink-delay answered Defer(until_s=nan, reason='waits for one node') at 312 s"

Run = Callable[..., Result]
Golden = Callable[[str, str], None]


@pytest.fixture
def socket_path() -> Iterator[Path]:
    # pytest's tmp_path can be longer than a socket address may be.
    with TemporaryDirectory(prefix="roostctl-") as folder:
        yield Path(folder) / "operator.sock"


@pytest.fixture
def operator() -> FakeOperator:
    """A daemon that knows nothing."""
    return FakeOperator()


@pytest.fixture
def address(operator: FakeOperator, socket_path: Path) -> Iterator[str]:
    with serve(operator, socket_path) as address:
        yield address


@pytest.fixture
def run(address: str) -> Run:
    """Run roostctl against the fake; keyword arguments are environment variables."""

    def invoke(*args: str, **env: str) -> Result:
        return CliRunner().invoke(cli, ["--daemon", address, *args], env={"COLUMNS": "", **env})

    return invoke


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with the file of that name; --update-golden writes it."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.write_text(text)
        assert path.exists(), f"no golden file {path}; look at the output, then --update-golden"
        assert text == path.read_text()

    return compare


@pytest.fixture
def cluster(operator: FakeOperator) -> FakeOperator:
    """Three nodes and a job in every state."""
    operator.add_node(
        build_node(
            "gpu1",
            holders={0: "4711", 1: "4711", 3: "4712_7"},
            faults={6: "lost"},
            problems=["GPU 6 is lost; reset it or drain the node"],
        ),
        build_topology("gpu1"),
    )
    operator.add_node(build_node("gpu2"), build_topology("gpu2"))
    silent = build_node("gpu3", has_probe=False, gpu_count=4)
    silent.usable, silent.slurm_state, silent.rack = False, "idle+drain", ""
    operator.add_node(silent)
    operator.timers.CopyFrom(_timers())
    operator.status.ClearField("slots")
    operator.status.slots.extend(build_slots(3, GATE_FAULT))
    for job, explanation in (_running(), _waiting(), _released(), _placing(), _ended()):
        operator.add_job(job, explanation)
    return operator


def _running() -> tuple[pb.Job, pb.Explanation]:
    job = build_job("4711", shares={"gpu1": [0, 1]}, link_scores=(400, 400))
    return job, pb.Explanation(
        decided_ago_s=312.0,
        policy="onnx:a1b2c3d4e5f6",
        candidates=[
            build_candidate(["gpu1"], [0, 1], 4.25, 400),
            build_candidate(["gpu2"], [0, 1], 4.125, 400, "would start an empty node"),
            build_candidate(["gpu1"], [2, 4], 1.5, 10, "breaks the linked pair 2-3"),
        ],
        exclusions=[
            pb.Exclusion(reason="not in partition main", node_count=12),
            pb.Exclusion(reason="too few free GPUs", node_count=1),
        ],
        slots=build_slots(),
        stack="roost, gate.kind open",
        achieved=pb.Achieved(
            speed_frac=0.85,
            source="link counters of this run",
            confidence_frac=0.3,
            nvlink_frac=0.12,
            pcie_frac=0.2,
            nic_frac=0.35,
        ),
    )


def _waiting() -> tuple[pb.Job, pb.Explanation]:
    job = build_job(
        "4713",
        state=pb.JOB_STATE_WAITING,
        gpu_count=16,
        reason="no node set has 8 free GPUs with the same indices",
        wait_left_s=245.0,
        turn=pb.Turn(position=2, of_count=14, slurm_position=9, order="learned"),
        expected_run=pb.ExpectedTime(low_s=75.0, median_s=540.0, high_s=1_500.0),
    )
    exclusions = [pb.Exclusion(reason="too few free GPUs", node_count=3)]
    return job, pb.Explanation(
        exclusions=exclusions,
        comment=pb.JobComment(
            model="bert", checkpoint_s=600.0, problems=["'gpu': unknown key, known are model"]
        ),
        sensitivity=pb.Sensitivity(
            timer="16/high",
            rack_frac=0.82,
            across_frac=0.5,
            source="speed profile of the model it names",
            confidence_frac=0.9,
        ),
        turn=pb.Turn(
            position=2, of_count=14, slurm_position=9, order="learned", overtaken_for_s=7_800.0
        ),
        expected_run=pb.ExpectedRun(
            gpu_s=9_600.0, median_s=540.0, low_s=75.0, high_s=1_500.0, similar_count=12.4
        ),
    )


def _timers() -> pb.ListTimersResponse:
    """One class that was tuned and one that is pinned and was never seen."""
    tuned = pb.Timer(
        name="8/high",
        node_timer_s=1830.0,
        rack_timer_s=2430.0,
        sample_count=40,
        waited_count=12,
        censored_frac=0.25,
        tuned_ago_s=312.0,
        dally_node_timer_s=21_600.0,
        dally_rack_timer_s=43_200.0,
    )
    pinned = pb.Timer(name="16/mid", node_timer_s=300.0, rack_timer_s=300.0, pinned_s=300.0)
    return pb.ListTimersResponse(gate="delay", timers=[tuned, pinned])


def _released() -> tuple[pb.Job, pb.Explanation]:
    reason = "--exclusive takes whole nodes, whatever is chosen"
    return build_job("4714", pb.JOB_STATE_LET_GO, 8, reason=reason), pb.Explanation()


def _placing() -> tuple[pb.Job, pb.Explanation]:
    shares = {"gpu1": [4, 5], "gpu2": [4, 5]}
    job = build_job("4715", pb.JOB_STATE_PLACING, 4, shares, link_scores=(800, 800))
    return job, pb.Explanation(
        decided_ago_s=0.2,
        policy="heuristic",
        fallback_reason="it answered NaN",
        candidates=[build_candidate(["gpu1", "gpu2"], [4, 5], 2.0, 800)],
        slots=build_slots(3, GATE_FAULT),
    )


def _ended() -> tuple[pb.Job, pb.Explanation]:
    job = build_job("4700", pb.JOB_STATE_ENDED, 2, {"gpu2": [0, 2]}, link_scores=(20, 400))
    del job.allocated[:]
    job.allocated.add(node="gpu2", gpu_indices=[0, 3])
    return job, pb.Explanation(
        decided_ago_s=7200.0,
        policy="heuristic",
        candidates=[build_candidate(["gpu2"], [0, 2], 1.0, 20)],
    )
