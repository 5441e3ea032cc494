from dataclasses import replace

import numpy as np
import pytest

from roost_sim.errors import TraceError
from roost_sim.traces.trace import UNKNOWN, Labels, Status, Trace, make_trace


def three_jobs() -> Trace:
    return make_trace(
        "three",
        submit_s=[100.0, 0.0, 50.0],
        duration_s=[10.0, 20.0, 30.0],
        gpu_count=[1, 2, 4],
        node_count=[1, UNKNOWN, 2],
        user_id=np.array([0, 1, UNKNOWN], dtype=np.int32),
        status=[Status.COMPLETED, Status.FAILED, Status.CANCELLED],
        user_names=["ada", "bob"],
        epoch_of_zero_s=1_000.0,
    )


def test_jobs_stand_in_order_of_submission() -> None:
    trace = three_jobs()
    assert trace.submit_s.tolist() == [0.0, 50.0, 100.0]
    assert trace.gpu_count.tolist() == [2, 4, 1]
    assert trace.node_count.tolist() == [UNKNOWN, 2, 1]
    assert [trace.user_name(i) for i in range(3)] == ["bob", "", "ada"]
    assert [trace.model_name(i) for i in range(3)] == ["", "", ""]


def test_jobs_submitted_at_once_keep_their_order() -> None:
    trace = make_trace("ties", [5.0, 5.0, 5.0], [1.0, 1.0, 1.0], [3, 1, 2])
    assert trace.gpu_count.tolist() == [3, 1, 2]


def test_load_is_gpu_seconds_over_gpu_seconds() -> None:
    trace = three_jobs()  # 2*20 + 4*30 + 1*10 GPU-seconds in 100 s
    assert trace.work_gpu_s == 170.0
    assert trace.load(cluster_gpu_count=4) == pytest.approx(170 / 400)


@pytest.mark.parametrize("load", [0.1, 0.9, 3.0])
def test_scaling_reaches_the_load_and_changes_arrivals_only(load: float) -> None:
    trace = three_jobs()
    scaled = trace.at_load(load, cluster_gpu_count=4)
    assert scaled.load(4) == pytest.approx(load)
    assert scaled.submit_s[1] / scaled.submit_s[2] == pytest.approx(0.5)
    assert scaled.duration_s.tolist() == trace.duration_s.tolist()
    assert scaled.epoch_of_zero_s is None


def test_jobs_that_arrive_at_once_have_no_load() -> None:
    batch = make_trace("batch", [0.0, 0.0], [1.0, 1.0], [1, 1])
    with pytest.raises(TraceError, match="batch: all jobs arrive at once"):
        batch.at_load(0.9, 8)


def test_window_counts_from_its_begin_and_excludes_its_end() -> None:
    inside = three_jobs().window(50.0, 100.0)
    assert inside.submit_s.tolist() == [0.0]
    assert inside.gpu_count.tolist() == [4]
    assert inside.epoch_of_zero_s == 1_050.0


def test_slices() -> None:
    trace = three_jobs()
    assert trace.limit(2).gpu_count.tolist() == [2, 4]
    assert len(trace.limit(99)) == 3
    assert trace.fitting(2).gpu_count.tolist() == [2, 1]
    assert len(trace.limit(0)) == 0
    assert trace.limit(0).span_s == 0.0


def test_columns_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        three_jobs().submit_s[0] = 1.0


@pytest.mark.parametrize(("submit_s", "count"), [([0.0], 2), ([-1.0, 0.0], 2)])
def test_columns_must_agree(submit_s: list[float], count: int) -> None:
    with pytest.raises(ValueError, match=r"shape|ascending"):
        make_trace("bad", submit_s, [1.0] * len(submit_s), [1] * count)


def test_nodes_that_a_cluster_has_not_are_not_asked_for() -> None:
    # Two nodes of 8 and one of 4. 16 GPUs on 16 nodes: only three hold one each. 16 on two: there.
    # 12 on three: 4 each. 15 on three: 5 each are on two nodes only. 8 on one: there.
    nodes = [16, 2, 3, 3, 1, UNKNOWN]
    gpus = [16, 16, 12, 15, 8, 99]
    trace = make_trace("t", [0.0] * 6, [1.0] * 6, gpus, node_count=nodes)
    asked = trace.without_impossible_nodes([8, 4, 8]).node_count.tolist()
    assert asked == [UNKNOWN, 2, 3, UNKNOWN, 1, UNKNOWN]


def test_labels_and_waits_follow_their_jobs() -> None:
    names = Labels(np.array([1, 0, UNKNOWN], dtype=np.int32), ("a", "b"))
    trace = make_trace(
        "t", [9.0, 3.0, 5.0], [1.0, 2.0, 3.0], [1, 1, 1],
        labels={"qos": names}, wait_s=[10.0, np.nan, 20.0], is_array=[True, False, False],
    )  # fmt: skip
    assert [trace.qos.of(job) for job in range(3)] == ["a", "", "b"]
    assert trace.ended_s().tolist() == [5.0, 28.0, 20.0]
    late = trace.window(4.0, 10.0)
    assert [late.qos.of(job) for job in range(2)] == ["", "b"]
    assert late.ended_s().tolist() == [24.0, 16.0]
    assert late.is_array.tolist() == [False, True]
    assert late.account.names == ()


def test_labels_of_another_number_of_jobs_are_refused() -> None:
    trace = make_trace("t", [0.0], [1.0], [1])
    with pytest.raises(ValueError, match="qos has not 1 ids"):
        replace(trace, qos=Labels.unknown(2))
