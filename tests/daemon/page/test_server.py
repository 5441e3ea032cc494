"""The page is served from a running daemon: off by default, and its event loop never waits."""

import asyncio
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.daemon.page.serving import served_page
from tests.daemon.running import config, running

from roost_engine.domain.errors import ConfigError, UnknownJob
from roost_engine.testing import builders
from roostd.config.config import Config
from roostd.page import server
from roostd.page.server import LiveAnswers, serve_page
from roostd.state import DaemonState
from roostd.testing.busy_state import busy_state
from roostd.testing.slurm_stand_in import SlurmStandIn


@pytest.fixture(scope="module")
def state() -> DaemonState:
    return busy_state(8)


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        body: bytes = answer.read()
    return body


async def test_a_running_daemon_shows_its_jobs_until_it_stops(tmp_path: Path) -> None:
    slurm = SlurmStandIn([builders.node("n1"), builders.node("n2")])
    settings = config(tmp_path, page={"listen": "127.0.0.1:0"})
    async with running(slurm, settings) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until_running(job_id)
        assert daemon.daemon.page is not None
        url = f"http://127.0.0.1:{daemon.daemon.page.server_port}"

        shown = json.loads(await asyncio.to_thread(fetch, f"{url}/api/state"))
        explained = json.loads(await asyncio.to_thread(fetch, f"{url}/api/jobs/{job_id}"))

        assert [job["job_id"] for job in shown["jobs"]] == [job_id]
        assert explained["job"]["job_id"] == job_id
        assert explained["candidates"][0]["why_not"] == ""
    with pytest.raises(urllib.error.URLError):
        fetch(url)


async def test_explanations_do_not_meet_in_a_turn(state: DaemonState) -> None:
    """One takes 30 ms with 20,000 waiting jobs, and 16 browsers may ask at the same time."""
    answers = LiveAnswers(state, asyncio.get_running_loop())
    job_id = next(iter(dict(state.engine.known_jobs())))
    turns: list[int] = []

    async def ask() -> None:
        await answers._explain(job_id)
        turns.append(counted)

    counted, asked = 0, [asyncio.create_task(ask()) for _ in range(5)]
    while not all(task.done() for task in asked):
        counted += 1
        await asyncio.sleep(0)
    assert len(set(turns)) == 5


async def test_there_is_no_page_unless_it_is_configured(tmp_path: Path) -> None:
    assert Config().page.listen is None
    async with running(SlurmStandIn([builders.node("n1")]), config(tmp_path)) as daemon:
        assert daemon.daemon.page is None


@pytest.mark.parametrize("address", ["0.0.0.0:7473", "10.0.0.1:7473", ":7473", "gpu-head:7473"])
def test_the_page_is_for_this_machine_only(address: str) -> None:
    with pytest.raises(ValueError, match="want"):
        Config.model_validate({"page": {"listen": address}})


async def test_an_address_that_cannot_be_used_is_named(state: DaemonState) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"page.listen: 127.0.0.1:{port}: Address already"):
            serve_page(state, f"127.0.0.1:{port}")


def test_browsers_that_ask_together_share_one_reading(state: DaemonState) -> None:
    texts = list[str]()
    with served_page(state) as page:
        threads = [
            threading.Thread(target=lambda: texts.append(page.answers.state_json()))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(texts) == 8
    assert len({json.loads(text)["at_epoch_s"] for text in texts}) == 1


def test_a_job_that_is_not_known_is_told_so(state: DaemonState) -> None:
    with served_page(state) as page:
        with pytest.raises(UnknownJob):
            page.answers.job_json("1")
        with pytest.raises(urllib.error.HTTPError) as caught:
            page.get("/api/jobs/1")
        assert caught.value.code == 404
        caught.value.close()


def test_a_loop_that_is_busy_or_gone_is_not_waited_for(
    state: DaemonState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PATIENCE_S", 0.05)
    loop = asyncio.new_event_loop()  # does not run
    with pytest.raises(TimeoutError):
        LiveAnswers(state, loop).state_json()
    loop.run_until_complete(asyncio.sleep(0))  # what was scheduled and cancelled
    loop.close()
    with pytest.raises(TimeoutError):
        LiveAnswers(state, loop).job_json("1")


async def test_the_event_loop_has_its_turns_while_the_document_is_built() -> None:
    state = busy_state(200)
    answers = LiveAnswers(state, asyncio.get_running_loop())
    asking = asyncio.create_task(asyncio.to_thread(answers.state_json))
    longest_s = cost_s = 0.0
    began_s = time.thread_time()
    while not asking.done():
        before_s = time.thread_time()
        await asyncio.sleep(0)
        longest_s = max(longest_s, time.thread_time() - before_s)
    cost_s = time.thread_time() - began_s
    assert json.loads(await asking)["nodes"]
    assert longest_s < max(0.02, cost_s / 4)  # processor time of one turn: slices are 2 ms


def test_the_page_knows_no_users_and_so_is_refused_beside_roles() -> None:
    settings = {"page": {"listen": "127.0.0.1:7473"}, "roles": {"enabled": True}}
    with pytest.raises(ValueError, match=r"which roles\.enabled does not allow"):
        Config.model_validate(settings)
