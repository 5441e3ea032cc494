"""Formats of traces, detected by their content."""

import gzip
import os
import threading
from pathlib import Path

import pytest

from roost_sim.errors import TraceError
from roost_sim.traces.formats import load_trace
from roost_sim.traces.trace import UNKNOWN


def test_node_count_of_a_trace_without_it_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("submit_s,duration_s,num_gpus\n0,1,1\n")
    assert load_trace(path).trace.node_count.tolist() == [UNKNOWN]


def through_a_pipe(folder: Path, content: bytes) -> Path:
    """A named pipe into which a thread writes."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    threading.Thread(target=pipe.write_bytes, args=[content], daemon=True).start()
    return pipe


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_trace_may_come_through_a_pipe(tmp_path: Path, pack: type[bytes]) -> None:
    rows = "".join(f"{at},1,1\n" for at in range(5_000))
    text = f"submit_s,duration_s,num_gpus\n{rows}soon,1,1\n"
    pipe = through_a_pipe(tmp_path, pack(text.encode()))
    loaded = load_trace(pipe)
    assert (len(loaded.trace), loaded.trace.source) == (5_000, str(pipe))
    assert str(loaded.report.examples[0]).startswith(f"{pipe}:5002: ")


def test_an_error_names_the_pipe_and_the_line(tmp_path: Path) -> None:
    pipe = through_a_pipe(tmp_path, b"nothing,of,use\n")
    with pytest.raises(TraceError, match=r"/pipe:1: no column submit_s"):
        load_trace(pipe)
