"""Words, numbers and missing values in JSON: base units, null for an unknown value."""

import math
from functools import cache

from google.protobuf.descriptor import Descriptor, EnumDescriptor
from google.protobuf.message import Message

from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import telemetry_pb2

_DECIMALS = 3
FLOAT32_DIGITS = 7  # more would show 0.3 as 0.30000001192092896


def mode_word(mode: int) -> str | None:
    """`enforce` for MODE_ENFORCE; None for unspecified."""
    return _enum_word(pb.Mode.DESCRIPTOR, mode)


@cache
def job_state_word(state: int) -> str | None:
    """`let_go` for JOB_STATE_LET_GO; None for unspecified."""
    return _enum_word(pb.JobState.DESCRIPTOR, state)


def level_word(level: int) -> str | None:
    """`numa_node` for ANCESTOR_LEVEL_NUMA_NODE; None for unspecified."""
    return _enum_word(telemetry_pb2.AncestorLevel.DESCRIPTOR, level)


def finite(value: float, digits: int | None = None) -> float | None:
    """Return a number as JSON shows it: null for NaN and infinity, which JSON does not have.

    Args:
        value: the number.
        digits: significant digits; None: three decimals, which for seconds is a millisecond.
    """
    if not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}") if digits else round(value, _DECIMALS)


def real(message: Message, field: str) -> float | None:
    """Return a field's value as a number; None where it is absent."""
    if not message.HasField(field):
        return None
    digits = FLOAT32_DIGITS if _is_single(message.DESCRIPTOR, field) else None
    return finite(float(getattr(message, field)), digits)


@cache
def _is_single(kind: Descriptor, field: str) -> bool:
    """Return whether a field is a float of 32 bits."""
    found = kind.fields_by_name[field]
    return bool(found.type == found.TYPE_FLOAT)


def whole(message: Message, field: str) -> int | None:
    """Return a field's value as a whole number; None where it is absent."""
    return int(getattr(message, field)) if message.HasField(field) else None


def _enum_word(enum: EnumDescriptor, number: int) -> str | None:
    if number == 0:
        return None
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    value = enum.values_by_number.get(number)
    # A daemon newer than this program may know more values.
    return value.name.removeprefix(prefix).lower() if value else f"unknown_{number}"
