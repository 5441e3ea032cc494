"""Every method for every role: who is let through is known by the kernel's user id."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from tests.conftest import open_folder
from tests.daemon.running import Running, config, running

from roost_engine.domain.errors import ConfigError
from roost_engine.domain.model import JobId
from roost_engine.testing import builders
from roost_proto.v1 import interference_pb2, mode_pb2, operator_pb2_grpc, policy_pb2, waste_pb2
from roost_proto.v1 import operator_pb2 as pb
from roostd.config.config import Config
from roostd.config.roles import RolesSection
from roostd.rpc.access.roles import NEEDED_ROLES, Role, Roles
from roostd.testing.slurm_stand_in import SlurmStandIn

VIEWER, OPERATOR, ADMIN, OTHER, GROUP = 60_001, 60_002, 60_003, 60_004, 60_005
ROLES = {
    "enabled": True,
    "viewers": [str(VIEWER), f"@{GROUP}"],
    "operators": [str(OPERATOR)],
    "admins": [str(ADMIN)],
}
# Written out again on purpose: a method whose role is changed by mistake fails here.
#                   other own-jobs viewer operator admin
MATRIX = """
Operator.GetStatus    -      x       x      x       x
Operator.ListJobs     -      x       x      x       x
Operator.GetJob       -      x       x      x       x
Operator.ExplainJob   -      x       x      x       x
Operator.GetEta       -      x       x      x       x
Operator.ListNodes    -      -       x      x       x
Operator.GetNode      -      -       x      x       x
Operator.GetTopology  -      -       x      x       x
Operator.ListTimers   -      -       x      x       x
Policies.ListPolicies -      -       x      x       x
Policies.ShowPolicies -      -       x      x       x
Policies.ExplainShadow -     -       x      x       x
Waste.GetWaste        -      x       x      x       x
Interference.GetInterference - -   x      x       x
Admin.PinTimer        -      -       -      x       x
Admin.UnpinTimer      -      -       -      x       x
PolicyAdmin.Shadow    -      -       -      x       x
PolicyAdmin.Evaluate  -      -       -      x       x
PolicyAdmin.Rollback  -      -       -      x       x
PolicyAdmin.Promote   -      -       -      -       x
ModeAdmin.SetMode     -      -       -      -       x
"""
EXPECTED = {
    f"/roost_proto.v1.{row.split()[0].replace('.', '/')}": row.split()[1:]
    for row in MATRIX.strip().splitlines()
}
COLUMNS = {"other": OTHER, "own-jobs": OTHER, "viewer": VIEWER, "operator": OPERATOR}
COLUMNS |= {"admin": ADMIN}

# Calls methods as another user; prints the code of each, and the answer in hex where there is one.
CALL_AS = """
import json, os, sys
uid, gids, calls = json.loads(sys.argv[1])
import grpc, grpc._channel, grpc.experimental  # now: the other user may be unable to read them
os.setgroups(gids)
os.setgid(60000)
os.setuid(uid)
answers = []
for path, method, request in calls:
    with grpc.insecure_channel(f"unix:{path}") as channel:
        ask = channel.unary_unary(method, lambda text: bytes.fromhex(text), lambda data: data)
        try:
            answers.append(["OK", ask(request, timeout=60).hex()])
        except grpc.RpcError as error:
            answers.append([error.code().name, error.details()])
print(json.dumps(answers))
"""
Call = tuple[Path, str, str]

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")


@dataclass
class Site:
    """A daemon with roles, and calls to it as any user."""

    found: Running
    config: Config
    reloaded: list[Config] = field(default_factory=list)

    def socket_of(self, method: str) -> Path:
        is_change = "Admin/" in method
        return self.config.admin_socket if is_change else self.config.operator_socket

    async def call(self, uid: int, *methods: str, gids: tuple[int, ...] = ()) -> list[str]:
        calls = [(str(self.socket_of(method)), method, "") for method in methods]
        return [code for code, _ in await self._call(uid, gids, calls)]

    async def ask(self, uid: int, method: str, request: bytes) -> tuple[str, str]:
        (answer,) = await self._call(
            uid, (), [(str(self.socket_of(method)), method, request.hex())]
        )
        return answer

    async def _call(
        self, uid: int, gids: tuple[int, ...], calls: list[tuple[str, str, str]]
    ) -> list[tuple[str, str]]:
        argv = [sys.executable, "-c", CALL_AS, json.dumps([uid, gids, calls])]
        done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [(code, detail) for code, detail in json.loads(done.stdout)]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    with open_folder() as folder:
        started = config(folder, roles=ROLES)
        newer, slurm = [started], SlurmStandIn([builders.node("n1")])
        async with running(slurm, started, lambda: newer[-1]) as found:
            yield Site(found, started, newer)


async def set_others(site: Site, others: str) -> None:
    """Reload with another value of roles.others."""
    roles = RolesSection.model_validate(ROLES | {"others": others})
    site.reloaded.append(site.config.model_copy(update={"roles": roles}))
    site.found.daemon.reload()
    await site.found.until(
        lambda: site.found.daemon.state.config.roles == roles, "the roles are in effect"
    )


def test_the_matrix_has_every_method_that_is_served() -> None:
    served = {
        f"/{service.full_name}/{method.name}"
        for file in (pb, policy_pb2, mode_pb2, waste_pb2, interference_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert set(NEEDED_ROLES) == served == set(EXPECTED)


@needs_root
@pytest.mark.parametrize("column", COLUMNS)
async def test_every_method_for_every_role(site: Site, column: str) -> None:
    await set_others(site, "own-jobs" if column == "own-jobs" else "nothing")
    codes = await site.call(COLUMNS[column], *EXPECTED)
    denied = {
        method: code == "PERMISSION_DENIED" for method, code in zip(EXPECTED, codes, strict=True)
    }
    position = list(COLUMNS).index(column)
    assert denied == {method: marks[position] == "-" for method, marks in EXPECTED.items()}
    assert "UNIMPLEMENTED" not in codes
    assert "UNAVAILABLE" not in codes


@needs_root
async def test_a_supplementary_group_gives_its_role(site: Site) -> None:
    method = "/roost_proto.v1.Operator/ListNodes"
    assert await site.call(OTHER, method) == ["PERMISSION_DENIED"]
    assert await site.call(OTHER, method, gids=(GROUP,)) == ["OK"]


@needs_root
async def test_users_without_a_role_see_their_own_jobs_and_no_others(site: Site) -> None:
    await set_others(site, "own-jobs")
    slurm = site.found.slurm
    (own,) = slurm.submit(gpus=2, user_id=OTHER)
    (foreign,) = slurm.submit(gpus=2, user_id=VIEWER)
    await site.found.until_running(JobId(own), JobId(foreign))

    listed = await site.ask(OTHER, "/roost_proto.v1.Operator/ListJobs", b"")
    assert [
        job.job_id for job in pb.ListJobsResponse.FromString(bytes.fromhex(listed[1])).jobs
    ] == [own]
    for name, request in (("GetJob", pb.GetJobRequest), ("ExplainJob", pb.ExplainJobRequest)):
        method = f"/roost_proto.v1.Operator/{name}"
        assert (await site.ask(OTHER, method, request(job_id=own).SerializeToString()))[0] == "OK"
        hidden = await site.ask(OTHER, method, request(job_id=foreign).SerializeToString())
        unknown = await site.ask(OTHER, method, request(job_id="999").SerializeToString())
        assert (hidden[0], unknown[0]) == ("NOT_FOUND", "NOT_FOUND"), (hidden, unknown)
        assert hidden[1].replace(foreign, "999") == unknown[1]  # it does not say that one exists
        assert (await site.ask(VIEWER, method, request(job_id=own).SerializeToString()))[0] == "OK"


@needs_root
async def test_forecasts_are_of_own_jobs(site: Site) -> None:
    await set_others(site, "own-jobs")
    slurm = site.found.slurm
    (first,) = slurm.submit(gpus=8, user_id=VIEWER)
    await site.found.until_running(first)
    (own,) = slurm.submit(gpus=8, user_id=OTHER)
    (foreign,) = slurm.submit(gpus=8, user_id=VIEWER)
    state = site.found.daemon.state
    await site.found.until(lambda: len(state.engine.waiting()) == 2, "two jobs wait")
    await site.found.daemon.parts.forecaster.turn()
    method = "/roost_proto.v1.Operator/GetEta"
    code, answer = await site.ask(OTHER, method, b"")
    assert code == "OK", answer
    assert [one.job_id for one in pb.GetEtaResponse.FromString(bytes.fromhex(answer)).etas] == [own]
    request = pb.GetEtaRequest(job_id=foreign).SerializeToString()
    assert (await site.ask(OTHER, method, request))[0] == "NOT_FOUND"


async def test_the_daemons_user_is_always_an_administrator(site: Site) -> None:
    async with site.found.operator() as operator:
        assert (await operator.ListNodes(pb.ListNodesRequest())).nodes
    async with grpc.aio.insecure_channel(f"unix:{site.config.admin_socket}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await operator_pb2_grpc.AdminStub(channel).UnpinTimer(pb.UnpinTimerRequest(name="8/x"))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_tcp_port_has_no_user_and_so_no_role(tmp_path: Path) -> None:
    settings = config(
        tmp_path, roles=ROLES, listen={"probes": "127.0.0.1:0", "operator_tcp": "127.0.0.1:0"}
    )
    async with running(SlurmStandIn([builders.node("n1")]), settings) as found:
        address = f"127.0.0.1:{found.daemon.parts.servers.operator_port}"
        async with grpc.aio.insecure_channel(address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as denied:
                await operator_pb2_grpc.OperatorStub(channel).GetStatus(pb.GetStatusRequest())
    assert denied.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "use the UNIX socket" in str(denied.value.details())


async def test_a_reload_that_names_an_unknown_user_keeps_the_old_roles(site: Site) -> None:
    state, metrics = site.found.daemon.state, site.found
    roles = RolesSection.model_validate(ROLES | {"admins": ["no-such-user-here"]})
    site.reloaded.append(site.config.model_copy(update={"roles": roles}))
    site.found.daemon.reload()
    await site.found.until(
        lambda: metrics.count("roost_config_last_reload_successful") == 0.0, "it is refused"
    )
    assert state.config.roles.admins == (str(ADMIN),)


def test_names_become_ids_and_every_unknown_name_is_one_problem() -> None:
    roles = Roles(RolesSection(enabled=True, viewers=("root", "7"), operators=("@0", "7")))
    assert roles.role_of(7, []) is Role.OPERATOR
    assert roles.role_of(8, [0]) is Role.OPERATOR
    assert roles.role_of(8, [8]) is Role.NONE
    assert roles.role_of(0, []) is Role.ADMIN
    with pytest.raises(ConfigError) as caught:
        Roles(RolesSection(viewers=("no-such-user",), admins=("@no-such-group",)))
    assert caught.value.problems == (
        "roles.viewers: no-such-user: no such user on this machine",
        "roles.admins: @no-such-group: no such group on this machine",
    )
