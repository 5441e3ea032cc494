"""Encodes dataclasses for the journal: typed, exact, readable by later versions.

A record is four bytes of length, four bytes of checksum, JSON of that length, then the raw bytes of
its arrays. The highest bit of the length says that there is a checksum: format 1 had none. It
detects every flipped bit; without one a flipped digit is another number. Dataclasses
are objects with their name under "$". Fields are stored by name, so a version that adds a field
with a default still reads old journals; `earlier` has the other changes. Floats are exact (JSON
text of `repr`, NaN included).
"""

import dataclasses
import json
import re
import struct
import types
import zlib
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, NewType, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.errors import JournalError, RoostError
from roost_engine.domain.lazy import Lazy
from roost_formats.journal.earlier import completed, finished, is_name_of

FORMAT = 2

# What reading damaged bytes may raise: the damage may be in any number or key.
_DAMAGE = (
    struct.error,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)

_T = TypeVar("_T")
_LENGTH = struct.Struct("<I")
_CHECKSUM = struct.Struct("<I")
_HAS_CHECKSUM = 1 << 31
_DTYPE = re.compile(r"[<>|=][biuf]\d{1,2}", re.ASCII)  # as numpy's dtype.str
_AnyArray: TypeAlias = NDArray[np.generic]


class UnknownRecord(JournalError):
    """A record has a type, a field or a value that this version of Roost does not know."""


def encode(value: object) -> bytes:
    """Return a dataclass, or a tuple of dataclasses, as bytes.

    Raises:
        JournalError: it holds a value of a type that has no encoding.
    """
    arrays: list[bytes] = []
    head = json.dumps(_plain(value, arrays), separators=(",", ":")).encode()
    return seal(head, arrays)


def seal(head: bytes, arrays: Iterable[bytes] = ()) -> bytes:
    """Return the record of a JSON text and the arrays behind it, with its checksum."""
    length, body = _LENGTH.pack(len(head) | _HAS_CHECKSUM), b"".join((head, *arrays))
    return b"".join((length, _CHECKSUM.pack(zlib.crc32(body, zlib.crc32(length))), body))


def decode(data: bytes, kind: type[_T]) -> _T:
    """Return the value that was encoded.

    Args:
        data: what `encode` returned.
        kind: the type of the value; may be a union or tuple[X, ...].

    Raises:
        UnknownRecord: this version does not know a type, a field or a value of an enum.
        JournalError: the bytes are damaged.
    """
    try:
        plain, arrays = _split(data)
        value: _T = _Reader(arrays).read(plain, kind)
    except UnknownRecord:
        raise
    except (*_DAMAGE, RoostError) as error:
        raise JournalError(f"record cannot be read: {error}") from error
    return value


def plain_of(data: bytes) -> Any:
    """Return what a record says without its arrays, as JSON values, of whatever version it is.

    Raises:
        JournalError: it is damaged.
    """
    try:
        return _split(data)[0]
    except _DAMAGE as error:
        raise JournalError(f"record cannot be read: {error}") from error


def check_form(data: bytes) -> None:
    """Check that bytes have the form of a record of any type.

    Raises:
        JournalError: they do not.
    """
    try:
        _split(data)
    except _DAMAGE as error:
        raise JournalError(f"record cannot be read: {error}") from error


def _split(data: bytes) -> tuple[Any, memoryview]:
    (length,) = _LENGTH.unpack_from(data)
    start = _LENGTH.size
    if length & _HAS_CHECKSUM:
        (checksum,) = _CHECKSUM.unpack_from(data, start)
        start += _CHECKSUM.size
        if zlib.crc32(memoryview(data)[start:], zlib.crc32(data[: _LENGTH.size])) != checksum:
            raise ValueError("its checksum is wrong")
    end = start + (length & ~_HAS_CHECKSUM)
    return json.loads(data[start:end]), memoryview(data)[end:]


def _plain(value: object, arrays: list[bytes]) -> object:
    match value:
        case None | bool() | str():
            return value
        case Enum():
            return value.value
        case int() | float():
            return value
        case np.generic():
            return value.item()
        case np.ndarray():
            arrays.append(np.ascontiguousarray(value).tobytes())
            return {"dtype": value.dtype.str, "shape": value.shape}
        case tuple() | list():
            return [_plain(item, arrays) for item in value]
        case Mapping():
            return [[_plain(key, arrays), _plain(item, arrays)] for key, item in value.items()]
    if isinstance(value, Lazy):
        return _plain(value.get(), arrays)
    if not dataclasses.is_dataclass(value):
        raise JournalError(f"{type(value).__name__} has no encoding")
    record: dict[str, object] = {"$": type(value).__name__}
    kind: type = type(value)
    for name in _field_names(kind):
        record[name] = _plain(getattr(value, name), arrays)
    return record


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@cache
def _field_types(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


class _Reader:
    """Rebuilds one record; arrays are taken from the tail in the order they were written."""

    def __init__(self, arrays: memoryview) -> None:
        self._arrays, self._offset = arrays, 0

    def read(self, plain: Any, kind: Any) -> Any:
        if isinstance(kind, NewType):
            return self.read(plain, kind.__supertype__)
        origin = get_origin(kind)
        # With numpy 2.5 on Python 3.12 NDArray is a lazy alias (PEP 695): resolve it.
        alias = getattr(kind if origin is None else origin, "__value__", None)
        if alias is not None:
            return self.read(plain, alias)
        if origin in (Union, types.UnionType):
            return self._one_of(plain, get_args(kind))
        if origin is np.ndarray or kind is np.ndarray:
            return self._array(plain)
        if origin is Lazy:
            return Lazy.of(self.read(plain, get_args(kind)[0]))
        if origin is tuple:
            return self._tuple(plain, get_args(kind))
        if origin is not None and issubclass(origin, Mapping):
            key, item = get_args(kind)
            return {self.read(k, key): self.read(v, item) for k, v in plain}
        if origin is not None and issubclass(origin, Sequence):
            (item,) = get_args(kind)
            return [self.read(part, item) for part in plain]
        if dataclasses.is_dataclass(kind):
            return self._record(plain, kind)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return self._enum(plain, kind)
        return kind(plain) if kind is float else plain

    def _enum(self, plain: Any, kind: type[Enum]) -> Enum:
        try:
            return kind(plain)
        except ValueError as error:
            raise UnknownRecord(f"record cannot be read: {error}") from error

    def _one_of(self, plain: Any, kinds: tuple[Any, ...]) -> Any:
        if plain is None and types.NoneType in kinds:
            return None
        if isinstance(plain, dict) and "$" in plain:
            named = next((kind for kind in kinds if is_name_of(plain["$"], kind)), None)
            if named is None:
                raise UnknownRecord(f"record cannot be read: unknown record {plain['$']!r}")
            return self.read(plain, named)
        (kind,) = (kind for kind in kinds if kind is not types.NoneType)
        return self.read(plain, kind)

    def _tuple(self, plain: Any, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(kinds) == 2 and kinds[1] is Ellipsis:
            return tuple(self.read(item, kinds[0]) for item in plain)
        return tuple(self.read(item, kind) for item, kind in zip(plain, kinds, strict=True))

    def _array(self, plain: Any) -> _AnyArray:
        if not _DTYPE.fullmatch(plain["dtype"]):  # numpy evaluates some other texts as Python
            raise ValueError(f"{plain['dtype']!r} is no type of numbers")
        dtype, shape = np.dtype(plain["dtype"]), tuple(plain["shape"])
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        part = self._arrays[self._offset : self._offset + size]
        if len(part) != size:
            raise ValueError("array is cut short")
        self._offset += size
        return np.frombuffer(part, dtype=dtype).reshape(shape)

    def _record(self, plain: Any, kind: Any) -> Any:
        if not is_name_of(plain["$"], kind):
            raise ValueError(f"want {kind.__name__}, got {plain['$']!r}")
        hints, fields = _field_types(kind), completed(plain)
        unknown = fields.keys() - hints.keys() - {"$"}
        if unknown:
            raise UnknownRecord(
                f"record cannot be read: {kind.__name__} has no field {min(unknown)!r}"
            )
        values = {
            name: self.read(value, hints[name]) for name, value in fields.items() if name != "$"
        }
        return finished(kind(**values), plain)
