"""Text of trace files: opens a file as UTF-8 text, plain or gzip by its first bytes."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from roost_sim.errors import TraceError

_GZIP = b"\x1f\x8b"
# By a file's first bytes, each from its format's specification: what the file is, and the cure.
_NO_TEXT = (
    (b"BZh", "is compressed with bzip2; unpack it, or use gzip"),
    (b"\xfd7zXZ\x00", "is compressed with xz; unpack it, or use gzip"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd; unpack it, or use gzip"),
    (b"PK\x03\x04", "is a ZIP archive or a spreadsheet; unpack it, or export CSV"),
    (b"PAR1", "is Parquet; export CSV"),
    (b"\xff\xfe", "is UTF-16; convert it: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "is UTF-16; convert it: iconv -f UTF-16 -t UTF-8"),
)
_HEAD_BYTES = 1 << 16


@contextmanager
def open_trace(path: Path) -> Iterator[TextIO]:
    """Open a text file, plain or gzip by its content.

    Bytes that are not UTF-8 become escapes: a job's name in Latin-1 must not make the whole trace
    unreadable, and different names stay different.

    Raises:
        TraceError: it cannot be opened, or read to its end, or is no text.
    """
    try:
        with path.open("rb") as raw:
            is_gzip = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
            binary = gzip.GzipFile(fileobj=raw) if is_gzip else raw
            _check_head(path, binary.read(_HEAD_BYTES))
            binary.seek(0)
            with io.TextIOWrapper(binary, "utf-8-sig", "backslashreplace", newline="") as text:
                yield text
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TraceError(str(path), None, reason) from error


def _check_head(path: Path, head: bytes) -> None:
    for start, reason in _NO_TEXT:
        if head.startswith(start):
            raise TraceError(str(path), None, reason)
    if b"\0" in head.partition(b"\n")[0]:
        raise TraceError(str(path), None, "is no text; want CSV, sacct -P, or Philly's JSON")
