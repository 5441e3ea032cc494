"""Rows of trace files: what is collected, skipped and refused, in chunks and one by one."""

import numpy as np
import pytest

from roost_sim.errors import TraceError
from roost_sim.traces.rows import Chunk, Names, Row, TraceCollector, Unusable, short_name, status_of
from roost_sim.traces.time_limits import limit_in_s
from roost_sim.traces.trace import UNKNOWN, Status


def chunk(*gpus: int, duration_s: float = 10.0) -> Chunk:
    count = len(gpus)
    return Chunk(
        submit_s=np.arange(100.0, 100.0 + count, dtype=np.float64),
        duration_s=np.full(count, duration_s),
        gpu_count=np.array(gpus),
        users=["ann"] * count,
    )


def test_rows_and_chunks_become_one_trace_from_its_first_submission() -> None:
    collector = TraceCollector("f")
    collector.add(2, Row(submit_s=130.0, duration_s=5.0, gpu_count=1, user="bob"))
    assert collector.add_chunk(chunk(2, 0, 4))
    found = collector.finish(epoch_of_zero_s=1_000.0)
    assert found.trace.submit_s.tolist() == [0.0, 2.0, 30.0]
    assert found.trace.gpu_count.tolist() == [2, 4, 1]
    assert [found.trace.user_name(n) for n in range(3)] == ["ann", "ann", "bob"]
    assert found.trace.epoch_of_zero_s == 1_100.0
    assert dict(found.report.skipped) == {"asks for no GPU": 1}


def test_a_chunk_with_a_row_out_of_range_is_not_added_at_all() -> None:
    collector = TraceCollector("f")
    assert not collector.add_chunk(chunk(1, 1, duration_s=-1.0))
    with pytest.raises(TraceError, match="no jobs"):
        collector.finish()


def test_a_bad_row_is_counted_or_raised() -> None:
    bad = Row(submit_s=0.0, duration_s=1.0, gpu_count=-1)
    lenient = TraceCollector("f")
    lenient.add(7, bad)
    assert (lenient.report.bad_count, str(lenient.report.examples[0])[:4]) == (1, "f:7:")
    with pytest.raises(TraceError, match="f:7: GPUs are not"):
        TraceCollector("f", strict=True).add(7, bad)


def test_names_are_numbered_as_they_first_occur() -> None:
    names = Names()
    assert names.ids(["b", "", "a", "b"]).tolist() == [0, UNKNOWN, 1, 0]
    assert names.names == ("b", "a")


def test_words_for_the_end_of_a_job() -> None:
    assert status_of("CANCELLED by 1000") is Status.CANCELLED
    assert status_of("") is Status.UNKNOWN
    with pytest.raises(Unusable, match="unknown status"):
        status_of("exploded")


def test_long_names_are_cut_but_stay_apart() -> None:
    names = [short_name(f" {'x' * length}y "[: length + 3]) for length in (5, 300, 10_000)]
    assert names[0] == "xxxxxy"
    assert len(names[1]) == len(names[2]) == 200
    assert len(set(names)) == 3
    assert short_name("\ud800" * 300) == short_name("\ud800" * 300)


def test_a_time_that_cannot_be_parsed_is_counted_or_raised() -> None:
    lenient = TraceCollector("f")
    assert np.isnan(lenient.usable_s(3, "x", limit_in_s))
    assert lenient.report.ignored == {"time limit is no number of seconds": 1}
    with pytest.raises(TraceError, match="f:3: time limit is no number of seconds, got 'x'"):
        TraceCollector("f", strict=True).usable_s(3, "x", limit_in_s)
