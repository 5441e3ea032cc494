"""roostctl against the daemon's own services: what the fake answers, the real ones answer too."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from prometheus_client import CollectorRegistry

from roost_engine.domain.events import Event, ForeignMemorySeen
from roost_engine.domain.model import NodeName
from roost_engine.domain.topology import Level, Link, LinkMatrix
from roost_engine.engine import Engine, EngineConfig
from roost_engine.gate.delay import DelayGate
from roost_engine.placement.wide_search import WideSearch
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import EngineHarness, bridges, delay_policies, job, node
from roost_formats.models.score import load_score_policy
from roost_proto.v1 import telemetry_pb2
from roostctl.main import cli
from roostctl.testing import build_topology
from roostd.config.config import Config
from roostd.ops.clock import MonotonicClock
from roostd.ops.metrics import Metrics
from roostd.rpc.server import Servers
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard
from roostd.telemetry.probe_messages import read_hello

Ask = Callable[..., Awaitable[Result]]


@pytest.fixture
def state() -> DaemonState:
    """Two bridged nodes; job 1 runs, 2 is being placed, 3 waits for 16 GPUs, 4 can never run."""
    harness = EngineHarness([node("gpu1"), node("gpu2")], bridges())
    harness.run(job("1", gpus=2))
    harness.queue(job("2", gpus=2), job("3", gpus=8, nodes=2), job("4", gpus=9))
    clock = MonotonicClock(0.0, 1_800_000_000.0)
    board = ProbeBoard(clock.now_s, lambda event: None)
    topology = build_topology("gpu1")
    hello = telemetry_pb2.Hello(
        node="gpu1",
        schema_version=1,
        session_id="s",
        gpus=topology.gpus,
        links=topology.links,
        nics=topology.nics,
    )
    board.apply_hello(read_hello(hello), object())
    # The harness's engine has an open gate.
    config = Config.model_validate({"listen": {"probes": "127.0.0.1:0"}, "gate": {"kind": "open"}})
    return DaemonState(
        version="0.1.0", clock=clock, config=config, engine=harness.engine, board=board
    )


@pytest.fixture
async def ask(state: DaemonState, socket_path: Path) -> AsyncIterator[Ask]:

    async def say(event: Event) -> None:
        state.engine.step(event)

    admin_socket = socket_path.with_name("admin.sock")
    metrics, listen = Metrics(CollectorRegistry()), state.config.listen
    servers = Servers(state, metrics, listen, socket_path, admin_socket, say)
    await servers.start()

    async def invoke(*args: str) -> Result:
        arguments = ["--daemon", f"unix:{socket_path}", *args]
        return await asyncio.to_thread(CliRunner().invoke, cli, arguments)

    yield invoke
    await servers.stop(grace_s=0)


async def test_nodes_show_which_gpus_are_free(ask: Ask) -> None:
    document = json.loads((await ask("nodes", "--json")).stdout)
    free = {n["name"]: sum(gpu["free"] for gpu in n["gpus"]) for n in document["nodes"]}
    assert sum(free.values()) == 12
    assert set(free) == {"gpu1", "gpu2"}


async def test_topology_shows_links_and_holders(ask: Ask) -> None:
    result = await ask("topology", "gpu1")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("NV4") == 8
    assert result.stdout.count("job 1") == 2


async def test_jobs_show_every_state(ask: Ask) -> None:
    document = json.loads((await ask("jobs", "--json")).stdout)
    states = {entry["job_id"]: entry["state"] for entry in document["jobs"]}
    assert states == {"1": "running", "2": "placing", "3": "waiting", "4": "let_go"}


async def test_explain_tells_what_was_chosen_and_why_others_lost(ask: Ask) -> None:
    document = json.loads((await ask("explain", "1", "--json")).stdout)
    chosen, *others = document["candidates"]
    assert (chosen["link_score"], chosen["why_not"]) == (400, None)
    assert document["job"]["allocated"] == document["job"]["planned"]
    assert others
    assert all(other["why_not"] for other in others)
    text = (await ask("explain", "1", "--features")).stdout
    assert "400 of the 400 points possible (100%)" in text
    assert "link_best_frac" in text


async def test_explain_names_the_costliest_neighbour_and_how_sure_that_is(
    state: DaemonState, ask: Ask
) -> None:
    score, fault = load_score_policy("neighbours")
    assert fault is None
    pcie = LinkMatrix.uniform(8, Link(Level.SYSTEM))
    policies = Policies(score=score, candidates=WideSearch())
    harness = EngineHarness([node("gpu1")], pcie, policies=policies)
    state.engine = harness.engine
    harness.run(job("1", gpus=4, required=["gpu1"]))
    harness.run(job("2", gpus=2, required=["gpu1"]))
    harness.run(job("3", gpus=2, required=["gpu1"]))
    text = " ".join((await ask("explain", "3")).stdout.split())
    said = r"Neighbour job 1 is expected to cost \d+ % of the speed \(\d+ % sure that it is more"
    assert re.search(said, text), text
    first = json.loads((await ask("explain", "1", "--json")).stdout)
    assert first["neighbour"] is None


async def test_explain_names_memory_of_no_job_where_nothing_else_was_free(
    state: DaemonState, ask: Ask
) -> None:
    harness = EngineHarness([node("gpu1", 2)], bridges(2))
    state.engine = harness.engine
    seen = ForeignMemorySeen(at_s=0.0, name=NodeName("gpu1"), gpu_index=0, used_bytes=41 << 30)
    harness.feed(seen)
    harness.run(job("1"), job("2"))
    first, second = [" ".join((await ask("explain", each)).stdout.split()) for each in "12"]
    assert "1 node part of its GPUs passed over: processes of no job use their memory" in first
    assert "Neighbour processes of no job use 41 GiB of GPU 0 of gpu1, and no other" in second


async def test_explain_tells_what_a_job_waits_for(ask: Ask) -> None:
    text = (await ask("explain", "3")).stdout
    assert "too few free GPUs" in text


async def test_explain_tells_why_a_job_is_left_to_slurm(ask: Ask) -> None:
    text = (await ask("explain", "4")).stdout
    assert "left to plain Slurm: no placement could ever hold it" in text


async def test_status_counts(ask: Ask) -> None:
    document = json.loads((await ask("status", "--json")).stdout)
    assert (document["gpu_count"], document["gpu_free_count"]) == (16, 12)
    assert (document["policy_model"], document["policy_sha256"]) == ("heuristic", None)
    assert (await ask("status", "--check")).exit_code == 1  # Slurm was never asked here


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["node", "gpu9"], "no node named 'gpu9'"),
        (["topology", "gpu9"], "no node named 'gpu9'"),
        (["topology", "gpu2"], "node gpu2 has no probe: start roost-probe there"),
        (["job", "9"], "no job '9'"),
        (["explain", "9"], "no job '9'"),
    ],
    ids=str,
)
async def test_refusals_are_those_of_the_fake(ask: Ask, args: list[str], message: str) -> None:
    result = await ask(*args)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr


async def test_an_administrator_pins_a_timer_and_gives_it_back(
    ask: Ask, state: DaemonState, tmp_path: Path
) -> None:
    state.engine = Engine(EngineConfig(), delay_policies(DelayGate()))
    settings = {"gate": {"kind": "delay"}, "paths": {"state_dir": str(tmp_path)}}
    state.config = Config.model_validate(settings)
    pinned = await ask("timers", "pin", "8/high", "300")
    assert pinned.exit_code == 0
    assert pinned.stdout.splitlines()[-1] == "8/high is pinned to 5 m 00 s."  # after the log
    document = json.loads((await ask("timers", "--json")).stdout)
    assert [(timer["name"], timer["pinned_s"]) for timer in document["timers"]] == [("8/high", 300)]
    assert "pinned" in (await ask("timers")).stdout
    given_back = await ask("timers", "unpin", "8/high")
    assert given_back.exit_code == 0
    assert given_back.stdout.splitlines()[-1].startswith("8/high is tuned again: NODE ")


async def test_a_timer_that_cannot_be_set_is_one_line_and_an_exit_code(
    ask: Ask, tmp_path: Path
) -> None:
    no_gate = await ask("timers", "pin", "8/high", "300")
    assert (no_gate.exit_code, no_gate.stdout) == (1, "")
    assert "gate.kind is open: only the delay gate has timers to set" in no_gate.stderr
    no_class = await ask("timers", "pin", "9/high", "300")
    assert no_class.exit_code == 2
    assert "no timer '9/high'" in no_class.stderr
    assert (await ask("timers", "pin", "8/high", "soon")).exit_code == 2
    nobody = await ask("timers", "unpin", "8/high", "--admin", f"unix:{tmp_path}/none")
    assert nobody.exit_code == 3
    assert "--admin or ROOST_ADMIN" in nobody.stderr
    assert "it has no timers" in (await ask("timers")).stdout
