"""What the selector reads: by hand for a small cluster, and the same for any order of the jobs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost_engine.plugins.plugins import Policies
from roost_engine.policies.protocols import QueueView
from roost_engine.prediction.predictors import Predictors
from roost_engine.queue import selector_features
from roost_engine.queue.selector_columns import (
    CLUSTER_COLUMNS,
    IMAGE_GPU_COUNT,
    IMAGE_NODE_COUNT,
    JOB_COLUMNS,
)
from roost_engine.queue.selector_features import SelectorFeatures, SelectorInput
from roost_engine.testing.builders import EngineHarness, job, node


def busy(*, nodes: int = 2) -> EngineHarness:
    """One job holds half of the first node."""
    predictors = Predictors()
    harness = EngineHarness(
        [node(f"n{number}") for number in range(nodes)], policies=Policies(predictors=predictors)
    )
    harness.run(job("0", gpus=4))
    return harness


def seen(harness: EngineHarness, *names: str, at_s: float = 0.0) -> SelectorInput:
    view = harness.engine.queue_view(at_s)
    jobs = [record for record in view.jobs if not names or record.job_id in names]
    return SelectorFeatures(Predictors()).observe(view, jobs)


def column(found: SelectorInput, name: str) -> list[float]:
    return [round(float(value), 4) for value in found.jobs[:, JOB_COLUMNS.index(name)]]


def of_cluster(found: SelectorInput, name: str) -> float:
    return float(found.cluster[CLUSTER_COLUMNS.index(name)])


def crowded() -> EngineHarness:
    """Both nodes are held but for four GPUs; four jobs wait that do not fit, or are not tried."""
    harness = busy()
    harness.run(job("1", gpus=8))
    harness.queue(job("2", gpus=8), job("3", gpus=5, nodes=2), job("4", gpus=6))
    return harness


def test_numbers_of_jobs_by_hand() -> None:
    found = seen(crowded(), at_s=60.0)
    assert found.job_ids == ("2", "3", "4")
    assert column(found, "ln_gpus") == pytest.approx(list(np.log1p([8, 10, 6]) / 5.0), abs=1e-4)
    assert column(found, "ln_nodes") == pytest.approx(list(np.log1p([1, 2, 1]) / 3.0), abs=1e-4)
    assert column(found, "ln_waited") == pytest.approx([np.log(2.0) / 8.0] * 3, abs=1e-4)
    assert column(found, "fits") == [0.0, 0.0, 0.0]
    assert column(found, "of_free") == [2.0, 2.0, 1.5]
    assert column(found, "smaller_frac") == pytest.approx([1 / 3, 2 / 3, 0.0], abs=1e-4)


def test_what_fits_is_known_without_a_try() -> None:
    view = crowded().engine.queue_view(0.0)
    features = SelectorFeatures(Predictors())
    assert features.fits(view).tolist() == [False, False, False]
    emptied = crowded()
    emptied.end("0")
    # Job 2 took the node that was freed.
    assert features.fits(emptied.engine.queue_view(0.0)).tolist() == [False, False]


def test_numbers_and_image_of_the_cluster_by_hand() -> None:
    found = seen(crowded())
    assert of_cluster(found, "free_frac") == pytest.approx(4 / 16)
    assert of_cluster(found, "nodes_with_4_frac") == pytest.approx(1 / 2)
    assert of_cluster(found, "nodes_with_8_frac") == 0.0
    assert of_cluster(found, "ln_waiting") == pytest.approx(np.log(4) / 8)
    assert of_cluster(found, "ln_waiting_gpus_per_gpu") == pytest.approx(np.log1p(24 / 16))
    pixels = IMAGE_NODE_COUNT * IMAGE_GPU_COUNT
    shown = found.cluster[:pixels].reshape(IMAGE_NODE_COUNT, IMAGE_GPU_COUNT)
    # Half of the lines show the node that is half free, free GPUs first; then the full one.
    assert shown[:16].tolist() == [[0.0] * 4 + [1.0] * 4] * 16
    assert shown[16:].all()


def test_the_image_does_not_depend_on_which_node_is_busy() -> None:
    pictures = []
    for ended in ("0", "1"):
        harness = EngineHarness([node("n0"), node("n1"), node("n2")])
        harness.run(job("0", gpus=8), job("1", gpus=8), job("2", gpus=8))
        harness.end(ended)
        pictures.append(seen(harness).cluster)
    assert np.array_equal(pictures[0], pictures[1])


def test_clusters_of_any_size_have_the_same_columns() -> None:
    for count in (1, 3, 70):
        found = seen(busy(nodes=count))
        assert found.cluster.shape == (len(CLUSTER_COLUMNS),)
        assert np.isfinite(found.cluster).all()


def test_nodes_that_slurm_would_not_use_look_full() -> None:
    harness = EngineHarness([node("n0", usable=False)])
    assert seen(harness).cluster[: IMAGE_NODE_COUNT * IMAGE_GPU_COUNT].all()


@given(st.permutations([0, 1, 2, 3, 4]))
@settings(max_examples=30, deadline=None)
def test_another_order_of_the_jobs_only_moves_their_lines(places: list[int]) -> None:
    harness = busy()
    harness.run(job("1", gpus=8))
    harness.queue(*(job(str(number), gpus=number) for number in (5, 6, 7, 8)), job("9", gpus=8))
    view = harness.engine.queue_view(100.0)
    straight = SelectorFeatures(Predictors()).observe(view)
    moved = SelectorFeatures(Predictors()).observe(view, [view.jobs[place] for place in places])
    assert np.array_equal(moved.jobs, straight.jobs[places])
    assert np.array_equal(moved.cluster, straight.cluster)


def test_what_was_computed_before_does_not_show() -> None:
    harness = crowded()
    features = SelectorFeatures(Predictors())
    for at_s in (0.0, 10.0):
        features.observe(harness.engine.queue_view(at_s))
    harness.end("1")
    harness.queue(job("5", gpus=8), *(job(str(number), gpus=7) for number in range(10, 90)))
    view = harness.engine.queue_view(20.0)
    fresh = SelectorFeatures(Predictors()).observe(view)
    assert np.array_equal(features.observe(view).jobs, fresh.jobs)


def test_what_is_asked_of_the_first_job_beyond_the_table_is_answered() -> None:
    harness = busy(nodes=1)
    harness.queue(*(job(str(number), gpus=8) for number in range(1, 66)))
    features = SelectorFeatures(Predictors())
    drains_s = [features.drain_s(one, 0.0) for one in harness.engine.queue_view(0.0).jobs]
    assert len(drains_s) == 65


def test_jobs_that_are_not_described_keep_what_was_expected_of_them() -> None:
    predictors = Predictors()
    harness = EngineHarness([node("n0")], policies=Policies(predictors=predictors))
    harness.run(job("0", gpus=8))
    harness.queue(*(job(str(number), gpus=8) for number in range(1, 101)))
    features, view = SelectorFeatures(predictors), harness.engine.queue_view(0.0)
    for record in view.jobs:
        features.note(record, 0.0)
    noted = features.observe(view)
    before = dict(zip(noted.job_ids, column(noted, "ln_rest"), strict=True))
    harness.advance(1e6)
    harness.end("0")
    view = harness.engine.queue_view(1e6)
    features.observe(view, view.jobs[:1])
    found, fresh = features.observe(view), SelectorFeatures(predictors).observe(view)
    assert column(found, "ln_rest") == [before[job_id] for job_id in found.job_ids]
    assert column(found, "ln_rest") != column(fresh, "ln_rest")


def test_notes_without_a_question_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selector_features, "MOST_NOTED", 3)
    harness = busy(nodes=1)
    harness.queue(*(job(str(number), gpus=8) for number in range(1, 6)))
    features, view = SelectorFeatures(Predictors()), harness.engine.queue_view(0.0)
    for record in view.jobs:
        features.note(record, 0.0)
    assert len(features._waiting._line_of) == 3
    fresh = SelectorFeatures(Predictors()).observe(view)
    assert np.array_equal(features.observe(view).jobs, fresh.jobs)


def test_a_changed_job_is_described_again() -> None:
    harness = crowded()
    features = SelectorFeatures(Predictors())
    view = harness.engine.queue_view(1.0)
    before = features.observe(view)
    view.jobs[0].spec = job("2", gpus=8, time_limit_s=60.0)
    after = features.observe(QueueView(jobs=view.jobs, cluster=view.cluster, at_s=2.0))
    assert column(before, "has_limit")[0] == 0.0
    assert column(after, "has_limit")[0] == 1.0


def test_the_image_of_a_job_is_the_chance_that_it_runs_on() -> None:
    found = seen(crowded(), "2")
    image = found.jobs[0, :64].reshape(8, 8)
    assert (image[:, 4:] == 0).all()  # it holds eight GPUs: the first four columns
    assert (np.diff(image[:, 0]) <= 0).all()
    assert image[0, 0] > 0.9
    assert np.allclose(image[:, :4], image[:, :1])


def test_an_empty_queue_is_described() -> None:
    found = seen(EngineHarness([node("n0")]))
    assert found.jobs.shape == (0, len(JOB_COLUMNS))
    assert found.job_ids == ()
