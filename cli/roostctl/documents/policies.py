"""What `roostctl policy ... --json` prints: the messages of policy.proto, field by field."""

from collections.abc import Mapping
from math import isfinite

from google.protobuf.message import Message


def message_document(schema: str, message: Message) -> Mapping[str, object]:
    """Return a message as a JSON object, under a schema."""
    return {"schema": schema, **_plain(message)}


def _plain(message: Message) -> dict[str, object]:
    """Return every field of a message by its name; null for one that is absent."""
    found: dict[str, object] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        elif field.message_type is None:
            found[field.name] = _scalar(value)
        elif isinstance(value, Message):
            found[field.name] = _plain(value)
        else:
            found[field.name] = [_plain(item) for item in value]
    return found


def _scalar(value: object) -> object:
    return None if isinstance(value, float) and not isfinite(value) else value
