"""roostctl asks a daemon of another release: fields, values of enums or methods are not there."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

import roost_proto.v1
from roostctl.main import EXIT_DAEMON_FAULT, cli

for _module in pkgutil.iter_modules(roost_proto.v1.__path__):
    importlib.import_module(f"roost_proto.v1.{_module.name}")  # into the pool of descriptors

ASKED = (
    *("nodes", "node n1", "topology n1", "jobs", "jobs --all", "job 1", "explain 1", "eta"),
    *("eta 1", "timers", "policy list", "waste", "interference", "status", "top --once"),
)
LATER = 99  # a value that no enum has yet
Answer = Callable[[str], bytes]


def nothing(method: str) -> bytes:
    """As an earlier release, which knows no field."""
    return b""


def later_values(method: str) -> bytes:
    """As a later release: everything is there once, and each enum has a value of its own."""
    service, name = method.strip("/").split("/")
    found = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
    message = GetMessageClass(found.output_type)()
    _fill(message)
    return message.SerializeToString()


def _fill(message: Message) -> None:
    for field in message.DESCRIPTOR.fields:
        holder: Any = getattr(message, field.name)
        is_many = field.is_repeated
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            inner = holder.add() if is_many else holder
            inner.SetInParent()
            _fill(inner)
        elif field.type == FieldDescriptor.TYPE_ENUM and is_many:
            holder.append(LATER)
        elif field.type == FieldDescriptor.TYPE_ENUM:
            setattr(message, field.name, LATER)


def no_protobuf(method: str) -> bytes:
    return b"\xff\xff\xff\x07"


class _Every(grpc.GenericRpcHandler):
    """Answers every method."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def service(
        self, details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        method = str(details.method)
        return grpc.unary_unary_rpc_method_handler(lambda _, __: self._answer(method))


@pytest.fixture
def daemon(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a daemon that answers as the parameter says; None: it lacks every method."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    if request.param is not None:
        server.add_generic_rpc_handlers((_Every(request.param),))
    address = f"unix:{tmp_path}/operator.sock"
    server.add_insecure_port(address)
    server.start()
    yield address
    server.stop(0)


@pytest.mark.parametrize("daemon", [nothing, later_values], indirect=True)
def test_fields_and_values_that_only_one_release_has_are_no_error(daemon: str) -> None:
    for words in ASKED:
        for option in ([], ["--json"]):
            if option and words.startswith("top"):
                continue
            argv = ["--daemon", daemon, *words.split(), *option]
            result = CliRunner().invoke(cli, argv)
            assert result.exit_code == 0, (argv, result.stderr, result.exception)


@pytest.mark.parametrize(
    ("daemon", "told"),
    [(None, "is older than this roostctl"), (no_protobuf, "cannot be read; see that it is roostd")],
    indirect=["daemon"],
)
def test_a_method_or_an_answer_that_it_cannot_use_is_one_line(daemon: str, told: str) -> None:
    for words in ASKED:
        result = CliRunner().invoke(cli, ["--daemon", daemon, *words.split()])
        assert (result.exit_code, result.stdout) == (EXIT_DAEMON_FAULT, "")
        assert told in result.stderr
        assert result.stderr.count("\n") == 1
