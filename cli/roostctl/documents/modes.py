"""The JSON of `roostctl mode`."""

from typing import TypedDict

from roost_proto.v1 import mode_pb2 as pb
from roostctl.documents.values import mode_word


class ModeDocument(TypedDict):
    """A change of a partition's mode."""

    schema: str
    partition: str
    mode: str | None
    was: str | None
    configured: str | None


def mode_document(made: pb.SetModeResponse) -> ModeDocument:
    """Return the document of a change."""
    return {
        "schema": "roost.mode/1",
        "partition": made.partition,
        "mode": mode_word(made.mode),
        "was": mode_word(made.was),
        "configured": mode_word(made.configured),
    }
