"""Formats of traces, detected by their content."""

from pathlib import Path

from roost_sim.traces.formats import load_trace
from roost_sim.traces.trace import UNKNOWN


def test_node_count_of_a_trace_without_it_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("submit_s,duration_s,num_gpus\n0,1,1\n")
    assert load_trace(path).trace.node_count.tolist() == [UNKNOWN]
