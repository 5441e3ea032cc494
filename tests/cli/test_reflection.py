"""The same calls through reflection alone, as grpcurl makes them: without our generated code."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from roostctl.testing import FakeOperator, serve

SERVICE = "roost_proto.v1.Operator"


@pytest.fixture
def channel(cluster: FakeOperator, socket_path: Path) -> Iterator[grpc.Channel]:
    with (
        serve(cluster, socket_path, reflection=True) as address,
        grpc.insecure_channel(address) as channel,
    ):
        yield channel


@pytest.fixture
def service(channel: grpc.Channel) -> ServiceDescriptor:
    database = ProtoReflectionDescriptorDatabase(channel)
    assert SERVICE in database.get_services()
    return DescriptorPool(database).FindServiceByName(SERVICE)


def call(
    channel: grpc.Channel, service: ServiceDescriptor, method: str, **request: object
) -> dict[str, Any]:
    described = service.methods_by_name[method]
    respond: Callable[..., Message] = channel.unary_unary(
        f"/{SERVICE}/{method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=GetMessageClass(described.output_type).FromString,
    )
    message = ParseDict(request, GetMessageClass(described.input_type)())
    return MessageToDict(respond(message, timeout=60), preserving_proto_field_name=True)


def test_every_question_of_the_cli_can_be_asked(
    channel: grpc.Channel, service: ServiceDescriptor
) -> None:
    requests: dict[str, dict[str, object]] = {
        "GetStatus": {},
        "ListNodes": {},
        "GetNode": {"name": "gpu1"},
        "GetTopology": {"node": "gpu1"},
        "ListJobs": {"include_ended": True},
        "GetJob": {"job_id": "4711"},
        "ExplainJob": {"job_id": "4711"},
        "ListTimers": {},
        "GetEta": {},
    }
    assert set(requests) == set(service.methods_by_name)
    answers = {name: call(channel, service, name, **body) for name, body in requests.items()}
    assert answers["GetStatus"]["cluster"] == "alpha"
    assert [node["name"] for node in answers["ListNodes"]["nodes"]] == ["gpu1", "gpu2", "gpu3"]
    assert answers["GetNode"]["gpus"][0]["job_id"] == "4711"
    assert len(answers["GetTopology"]["links"]) == 28
    assert len(answers["ListJobs"]["jobs"]) == 5
    assert answers["GetJob"]["state"] == "JOB_STATE_RUNNING"
    assert answers["ExplainJob"]["candidates"][1]["why_not"] == "would start an empty node"


def test_a_refusal_carries_its_code(channel: grpc.Channel, service: ServiceDescriptor) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        call(channel, service, "GetJob", job_id="9")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
