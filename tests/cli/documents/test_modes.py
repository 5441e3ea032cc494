"""The JSON of a change of a mode."""

from roost_proto.v1 import mode_pb2 as pb
from roost_proto.v1 import operator_pb2
from roostctl.documents.modes import mode_document


def test_modes_are_words_and_an_unknown_one_is_null() -> None:
    made = pb.SetModeResponse(partition="gpu", mode=operator_pb2.MODE_ENFORCE)
    document = mode_document(made)
    assert (document["mode"], document["was"], document["configured"]) == ("enforce", None, None)
