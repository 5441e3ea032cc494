"""What `roostctl top --json` prints."""

from typing import TypedDict

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.jobs import JobDocument, job_document
from roostctl.documents.nodes import NodeDocument, node_document
from roostctl.documents.status import StatusDocument, status_document


class TopDocument(TypedDict):
    """`roostctl top --json`: one moment."""

    schema: str
    status: StatusDocument
    nodes: list[NodeDocument]
    jobs: list[JobDocument]


def top_document(status: pb.Status, nodes: list[pb.Node], jobs: list[pb.Job]) -> TopDocument:
    """Schema roost.top/1."""
    return {
        "schema": "roost.top/1",
        "status": status_document(status),
        "nodes": [node_document(node) for node in nodes],
        "jobs": [job_document(job) for job in jobs],
    }
