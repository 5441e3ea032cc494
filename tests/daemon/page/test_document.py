"""The page's document says what the daemon's state says."""

import asyncio
import json
from math import inf
from typing import Any

import pytest

from roost_engine.domain.errors import UnknownJob
from roost_engine.domain.events import GpuHealthChanged, NodeLost
from roost_engine.domain.model import JobId, NodeName
from roost_engine.forecast.forecast import Forecast, JobForecast, Quantiles
from roost_engine.job_record import JobState
from roostd.page import document
from roostd.page.document import GPU_KEYS, build, job_answer, job_document, message_document
from roostd.rpc.messages import explanations, nodes
from roostd.state import DaemonState, UnmanagedJob
from roostd.testing.busy_state import busy_state


@pytest.fixture
def state() -> DaemonState:
    return busy_state(12)


def built(state: DaemonState) -> Any:
    return json.loads(asyncio.run(build(state)))


def test_every_node_and_gpu_is_there_with_its_job(state: DaemonState) -> None:
    shown, held = built(state), nodes.holders(state)
    assert [node["name"] for node in shown["nodes"]] == nodes.node_names(state)
    jobs = {
        (node["name"], gpu): values[GPU_KEYS.index("job_id")]
        for node in shown["nodes"]
        for gpu, values in enumerate(node["gpus"])
    }
    assert {key: job_id for key, job_id in jobs.items() if job_id} == held


def test_load_is_that_of_the_newest_sample(state: DaemonState) -> None:
    name = nodes.node_names(state)[0]
    told = nodes.node(state, name, {})
    (node,) = [one for one in built(state)["nodes"] if one["name"] == name]
    for gpu, values in zip(told.gpus, node["gpus"], strict=True):
        sm, memory, heat = values[1:4]
        assert sm == round(100 * gpu.sm_frac)
        assert memory == round(100 * gpu.memory_used_bytes / gpu.memory_bytes)
        assert heat == round(gpu.temperature_c)


def test_nodes_with_equal_links_share_one_table(state: DaemonState) -> None:
    shown = built(state)
    assert len(shown["links"]) == 2  # two racks, each of its own kind
    for node in shown["nodes"]:
        gpu_count, pairs = shown["links"][node["links"]]
        report = state.board.report(NodeName(node["name"]))
        assert report is not None
        links = report.hello.links.links
        assert gpu_count == len(node["gpus"])
        assert len(pairs) == gpu_count * (gpu_count - 1) // 2
        for a, b, symbol, score in pairs:
            link = links[a][b]
            assert link is not None
            assert (symbol, score) == (link.symbol, link.score)


def test_jobs_that_wait_come_in_their_order_and_placed_ones_newest_first(
    state: DaemonState,
) -> None:
    shown = built(state)
    waiting = [job for job in shown["jobs"] if job["state"] == "JOB_STATE_WAITING"]
    placed = [job for job in shown["jobs"] if job["state"] == "JOB_STATE_RUNNING"]
    positions = [job["turn"]["position"] for job in waiting]
    assert positions == list(range(1, len(state.engine.waiting()) + 1))
    assert all(job["reason"] for job in waiting)
    runs_s = [job["run_s"] for job in placed]
    assert runs_s == sorted(runs_s)
    running = [one for one, record in state.engine.records() if record.state is JobState.RUNNING]
    assert {job["job_id"] for job in placed} == set(running)
    assert (shown["waiting_left_out"], shown["placed_left_out"]) == (0, 0)


def test_a_placed_job_on_several_gpus_has_its_link_scores(state: DaemonState) -> None:
    shown = built(state)
    several = {
        job["job_id"]: [job["link_score"], job["best_link_score"]]
        for job in shown["jobs"]
        if job["state"] == "JOB_STATE_RUNNING" and job["gpu_count"] > 1
    }
    assert several
    assert shown["link_scores"] == several


def test_long_lists_are_cut_and_the_rest_is_counted(
    state: DaemonState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "WAITING_LIMIT", 1)
    monkeypatch.setattr(document, "PLACED_LIMIT", 2)
    waiting_count = len(state.engine.waiting())
    placed_count = sum(1 for _ in state.engine.known_jobs()) - waiting_count
    shown = built(state)
    assert len(shown["jobs"]) == 3
    assert shown["waiting_left_out"] == waiting_count - 1 > 0
    assert shown["placed_left_out"] == placed_count - 2 > 0


def test_a_blocked_job_waits_at_the_end(state: DaemonState) -> None:
    state.unmanaged[JobId("9")] = UnmanagedJob(reason="is held", is_blocked=True)
    state.unmanaged[JobId("10")] = UnmanagedJob(reason="--exclusive", is_blocked=False)
    waiting = [job for job in built(state)["jobs"] if job["state"] == "JOB_STATE_WAITING"]
    assert (waiting[-1]["job_id"], waiting[-1]["reason"]) == ("9", "is held")


def test_a_faulty_gpu_and_a_node_without_a_probe_are_told(state: DaemonState) -> None:
    name = nodes.node_names(state)[0]
    state.engine.step(
        GpuHealthChanged(at_s=state.clock.now_s(), name=name, gpu_index=3, fault="XID 79")
    )
    gone = nodes.node_names(state)[1]
    report = state.board.report(gone)
    assert report is not None
    report.stream = None
    state.board.forget(gone)
    first, second, *_ = built(state)["nodes"]
    assert first["gpus"][3][GPU_KEYS.index("fault")] == "XID 79"
    assert second["sample_age_s"] is None
    assert second["links"] is None
    assert second["problems"] == ["no probe: links and load are unknown"]
    assert second["gpus"][0][1:] == [None, None, None, ""]


async def test_a_node_that_is_lost_while_it_is_read_is_left_out(state: DaemonState) -> None:
    names = nodes.node_names(state)
    building = asyncio.create_task(build(state))
    await asyncio.sleep(0)
    state.engine.step(NodeLost(at_s=state.clock.now_s(), name=names[-1]))
    shown = json.loads(await building)
    assert {node["name"] for node in shown["nodes"]} in (set(names), set(names[:-1]))


def test_modes_are_those_of_every_partition(state: DaemonState) -> None:
    modes = {one["partition"]: one["mode"] for one in built(state)["partitions"]}
    assert modes == {"main": "enforce", "debug": "shadow"}


def test_an_explanation_is_that_of_the_operators(state: DaemonState) -> None:
    (job_id, *_) = [one for one, _ in state.engine.records()]
    told = message_document(explanations.explanation(state, job_id))
    assert job_document(job_answer(state, job_id)) == told | {"expected_start": None}
    with pytest.raises(UnknownJob):
        job_answer(state, JobId("1"))


def test_a_waiting_job_has_its_expected_start_while_the_forecast_is_fresh(
    state: DaemonState,
) -> None:
    waiting, *_ = state.engine.waiting()
    start = Quantiles(60.0, 120.0, inf)
    now_s = state.clock.now_s()
    state.forecast = Forecast(
        at_s=now_s, play_count=20, jobs={waiting: JobForecast(start, start, start)}
    )
    found = job_document(job_answer(state, waiting))["expected_start"]
    assert found == pytest.approx({"low_s": 60.0, "median_s": 120.0}, abs=5.0)
    state.forecast_fault = "no answer in 30 s"
    assert job_document(job_answer(state, waiting))["expected_start"] is None
