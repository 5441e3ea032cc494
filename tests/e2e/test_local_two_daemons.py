"""Two roostds on one cluster, with folders of their own: one steers, the other one says so."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
import yaml
from tests.e2e.ledger import (
    assert_all_completed,
    cleared,
    submit,
    until,
    until_exists,
    wait_until_over,
)
from tests.e2e.two_nodes import two_nodes

from roost_demo.stack import Stack
from roost_proto.v1 import operator_pb2, operator_pb2_grpc
from roost_slurm.text.stamp import LEASE, RELEASED_STAMP

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with two_nodes() as running:
        yield running


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared(cluster):
        yield cluster


class Second:
    """Another roostd on the same Slurm."""

    def __init__(self, stack: Stack, runtime: Path, state: Path) -> None:
        settings = yaml.safe_load((stack.folder / "roostd.yaml").read_text())
        settings["listen"]["probes"] = "127.0.0.1:0"
        settings["paths"] = {"runtime_dir": str(runtime), "state_dir": str(state)}
        file = stack.folder / "second.yaml"
        file.write_text(yaml.safe_dump(settings))
        self.socket = runtime / "operator.sock"
        self._log = stack.folder / "second.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(Path(sys.executable).with_name("roostd")), "--config", str(file)],
                env=stack.slurm.env | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def fault(self) -> str:
        """What GetStatus says is wrong; empty while it does not answer."""
        with grpc.insecure_channel(f"unix:{self.socket}") as channel:
            stub = operator_pb2_grpc.OperatorStub(channel)
            try:
                return stub.GetStatus(operator_pb2.GetStatusRequest(), timeout=5.0).slurm_fault
            except grpc.RpcError:
                return ""

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60.0)


def test_only_the_roostd_whose_heartbeat_slurm_reads_steers(stack: Stack, tmp_path: Path) -> None:
    second = Second(stack, stack.folder / "other", stack.folder / "other-state")
    try:
        is_told = tmp_path / "told"  # the second one sees leases of waiting jobs alone
        filling = until_exists(is_told)
        jobs = {submit(stack.slurm, "--gres=gpu:8", command=filling): 8 for _ in range(2)}
        jobs |= {submit(stack.slurm, f"--gres=gpu:{count}"): count for count in (1, 2, 4, 8, 3)}
        until(lambda: "another roostd steers this cluster" in second.fault(), "the second says so")
        is_told.touch()
        wait_until_over(stack.slurm, jobs, 120.0)
        assert_all_completed(stack.slurm, jobs)
        for _ in range(3):  # in a while of its own: the second one sees jobs from their first lease
            job_id = submit(stack.slurm, "--gres=gpu:2")
            wait_until_over(stack.slurm, [job_id], 60.0)
    finally:
        second.stop()
    assert "another_roostd" in second.log
    assert "job_pinned" not in second.log
    assert "leases_ended" not in second.log
    status = stack.operator().GetStatus(operator_pb2.GetStatusRequest(), timeout=60.0)
    assert status.slurm_fault == ""
    assert status.decision_count >= 10


def test_jobs_are_left_to_slurm_once_its_script_reads_another_heartbeat(
    stack: Stack, tmp_path: Path
) -> None:
    """As after the takeover by a backup controller with a roostd of its own beside it."""
    slurm, is_over = stack.slurm, tmp_path / "over"
    second = Second(stack, stack.folder / "backup", stack.folder / "backup-state")
    script = slurm.folder.etc / "job_submit.lua"
    before = script.read_text()
    try:
        heartbeat = second.socket.with_name("heartbeat")
        until(heartbeat.exists, "the second roostd serves")
        filling = [submit(slurm, "--gres=gpu:8", command=until_exists(is_over)) for _ in range(2)]
        for job_id in filling:
            slurm.wait_for_state(job_id, "RUNNING")
        earlier = submit(slurm, "--gres=gpu:8")
        script.write_text(before.replace(str(stack.folder / "heartbeat"), str(heartbeat)))
        later = submit(slurm, "--gres=gpu:8")
        until(lambda: f"AdminComment={RELEASED_STAMP}" in slurm.show_job(earlier), "it is left")
        assert f"AdminComment={LEASE} " in slurm.show_job(later)
        is_over.touch()
        wait_until_over(slurm, [*filling, earlier, later], 120.0)
        assert_all_completed(slurm, dict.fromkeys([*filling, earlier, later], 8))
    finally:
        script.write_text(before)
        second.stop()


@pytest.mark.parametrize("folder", ["runtime", "state"])
def test_a_second_roostd_on_a_folder_of_the_first_is_refused(stack: Stack, folder: str) -> None:
    runtime = stack.folder if folder == "runtime" else stack.folder / "third"
    state = stack.folder / ("state" if folder == "state" else "third-state")
    second = Second(stack, runtime, state)
    assert second.process.wait(60.0) != 0
    assert "another roostd is running on it" in second.log
    job_id = submit(stack.slurm, "--gres=gpu:2")
    wait_until_over(stack.slurm, [job_id], 60.0)
    assert_all_completed(stack.slurm, {job_id: 2})
