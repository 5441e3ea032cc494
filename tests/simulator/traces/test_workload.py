"""A trace becomes jobs: ids, shapes, times."""

import math

import numpy as np
import pytest

from roost_engine.domain.model import JobId
from roost_sim.traces.shapes import tightest_shapes
from roost_sim.traces.trace import LABELS, UNKNOWN, Labels, make_trace
from roost_sim.traces.workload import arrivals, job_ids


@pytest.mark.parametrize(
    ("gpu_count", "node_count", "shape"),
    [
        (8, UNKNOWN, (1, 8)),
        (8, 2, (2, 4)),  # as the trace says
        (9, 2, (3, 3)),  # does not divide among two
        (32, 2, (4, 8)),  # sixteen a node are too many
        (8, 0, (1, 8)),
    ],
)
def test_node_counts_of_the_trace_are_used_where_gpus_divide_evenly(
    gpu_count: int, node_count: int, shape: tuple[int, int]
) -> None:
    trace = make_trace("made", [5.0], [60.0], [gpu_count], node_count=[node_count])
    (arrival,) = arrivals(trace, tightest_shapes, 8, "main")
    first = arrival.spec.shapes[0]
    assert (first.node_count, first.gpus_per_node) == shape
    assert (arrival.work_s, arrival.gpu_count, arrival.spec.submit_s) == (60.0, gpu_count, 5.0)


def test_ids_count_from_one_in_order_of_submission() -> None:
    trace = make_trace("made", [9.0, 3.0], [1.0, 2.0], [1, 2])
    jobs = list(arrivals(trace, tightest_shapes, 8, "gpu"))
    assert [job.spec.job_id for job in jobs] == job_ids(trace) == ["1", "2"]
    assert [job.work_s for job in jobs] == [2.0, 1.0]
    assert {job.spec.partition for job in jobs} == {"gpu"}


def test_the_request_has_what_the_trace_says_of_it_but_the_simulated_partition() -> None:
    only = np.zeros(2, dtype=np.int32)
    labels = {name: Labels(only, (name,)) for name in LABELS}
    trace = make_trace(
        "made", [0.0, 1.0], [1.0, 1.0], [1, 1], labels=labels, time_limit_s=[60.0, math.inf]
    )
    first, second = (job.spec for job in arrivals(trace, tightest_shapes, 8, "main"))
    assert (first.name, first.account, first.qos) == ("job_name", "account", "qos")
    assert (first.partition, first.time_limit_s, second.time_limit_s) == ("main", 60.0, None)
    assert trace.partition.of(0) == "partition"
    given = list(arrivals(trace, tightest_shapes, 8, "main", limit_s={JobId("2"): 7.0}))
    assert [job.spec.time_limit_s for job in given] == [None, 7.0]
