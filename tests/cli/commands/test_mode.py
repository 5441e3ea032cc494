"""`roostctl mode`: asks the admin socket, and says what the file will bring back."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from tests.cli.conftest import Run
from tests.cli.test_json_documents import misfits

from roost_proto.v1 import mode_pb2 as pb
from roost_proto.v1 import operator_pb2
from roost_proto.v1.mode_pb2_grpc import ModeAdminServicer, add_ModeAdminServicer_to_server
from roostctl.documents.modes import ModeDocument


class FakeModes(ModeAdminServicer):
    """Records the changes that were asked for; roostd.yaml says shadow."""

    def __init__(self) -> None:
        self.asked = list[pb.SetModeRequest]()

    def SetMode(
        self, request: pb.SetModeRequest, context: grpc.ServicerContext
    ) -> pb.SetModeResponse:
        self.asked.append(request)
        return pb.SetModeResponse(
            partition=request.partition,
            mode=request.mode,
            was=operator_pb2.MODE_SHADOW,
            configured=operator_pb2.MODE_SHADOW,
        )


@pytest.fixture
def modes(socket_path: Path) -> Iterator[FakeModes]:
    modes, server = FakeModes(), grpc.server(ThreadPoolExecutor(max_workers=1))
    add_ModeAdminServicer_to_server(modes, server)
    server.add_insecure_port(f"unix:{socket_path.with_name('admin.sock')}")
    server.start()
    yield modes
    server.stop(grace=None).wait()


def test_a_change_says_what_a_reload_would_bring_back(modes: FakeModes, run: Run) -> None:
    result = run("mode", "gpu", "enforce", SUDO_USER="alice")
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "gpu is enforce; it was shadow.\n"
        "roostd.yaml says shadow, which holds again after a reload or a restart: write enforce"
        " there to keep it.\n"
    )
    expected = pb.SetModeRequest(partition="gpu", mode=operator_pb2.MODE_ENFORCE, by="alice")
    assert modes.asked == [expected]


def test_a_mode_as_in_the_file_needs_no_reminder(modes: FakeModes, run: Run) -> None:
    assert run("mode", "gpu", "shadow").stdout == "gpu is shadow already.\n"


def test_the_json_has_the_declared_shape(modes: FakeModes, run: Run) -> None:
    document = json.loads(run("mode", "gpu", "off", "--json").stdout)
    assert misfits(document, ModeDocument) == []
    assert document == {
        "schema": "roost.mode/1",
        "partition": "gpu",
        "mode": "off",
        "was": "shadow",
        "configured": "shadow",
    }


def test_another_mode_is_wrong_usage(modes: FakeModes, run: Run) -> None:
    assert run("mode", "gpu", "on").exit_code == 2
    assert modes.asked == []


def test_an_admin_socket_that_is_not_there_is_named(run: Run) -> None:
    result = run("mode", "gpu", "off")
    assert result.exit_code == 3
    assert "--admin or ROOST_ADMIN" in result.stderr
