"""Text of trace files: what is no text says what it is and what to do."""

import bz2
import lzma
from pathlib import Path

import pytest

from roost_sim.errors import TraceError
from roost_sim.traces.formats import load_trace

CSV = "submit_s,duration_s,num_gpus\n0,10,1\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (bz2.compress(CSV.encode()), "bzip2; unpack it"),
        (lzma.compress(CSV.encode()), "xz; unpack it"),
        (b"\x28\xb5\x2f\xfd" + bytes(40), "zstd; unpack it"),
        (b"PK\x03\x04" + bytes(40), "ZIP"),
        (b"PAR1" + bytes(40), "Parquet; export CSV"),
        (CSV.encode("utf-16"), "UTF-16; convert it: iconv"),
        (b"\xfe\xff" + CSV.encode("utf-16-be"), "UTF-16; convert it: iconv"),
        (b"\x7fELF\x02\x01\x00\x00", "is no text"),
        (b'{"jobs": [{"job_id": 1}]}', "is JSON, but not Philly's .* sacct -a -P"),
    ],
)
def test_what_is_no_trace_says_what_it_is(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "jobs"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=reason):
        load_trace(path)


def test_a_zero_byte_in_a_name_does_not_make_a_file_binary(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    row = b"1|2026-03-01T10:00:00|60|gres/gpu=1|odd\0name"
    path.write_bytes(b"JobID|Submit|ElapsedRaw|AllocTRES|JobName\n" + row + b"\n")
    assert len(load_trace(path).trace) == 1
