"""A short search from traces to a model, stopped and continued."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.training.burst import best_s, burst
from tests.training.environments.small_episodes import cluster, episodes, trace
from tests.training.selector.test_training import Stopped, stop_within

from roost_formats.models.order import load_onnx_selector
from roost_train.errors import TooFewJobs, TrainError
from roost_train.improvement.evolution import Evolution
from roost_train.networks.score_selector import READ_COLUMNS
from roost_train.selector.evolution_training import (
    EvolutionParameters,
    EvolutionTraining,
    part_episodes,
)
from roost_train.selector.runs import SelectorRuns, mean_jct_s

pytestmark = pytest.mark.torch

SHORT = EvolutionParameters(
    episode_count=2, candidate_count=4, measured_episodes=1, validated_episodes=2, validate_every=2
)


def training(folder: Path, parameters: EvolutionParameters = SHORT) -> EvolutionTraining:
    runs = SelectorRuns("all", (episodes(job_count=60),))
    return EvolutionTraining(runs, runs, parameters, folder, {"made": "by a test"})


def for_so_many(count: int) -> Callable[[], bool]:
    left = iter(range(count))
    return lambda: next(left, None) is not None


def test_a_search_that_was_stopped_comes_out_the_same(tmp_path: Path) -> None:
    whole = training(tmp_path / "whole").run(4)
    training(tmp_path / "parts").run(4, for_so_many(2))
    parts = training(tmp_path / "parts").run(4)
    assert parts.read_bytes() == whole.read_bytes()
    assert parts.with_suffix(".json").read_bytes() == whole.with_suffix(".json").read_bytes()
    log = (tmp_path / "whole" / "log.jsonl").read_text(encoding="utf-8")
    assert (tmp_path / "parts" / "log.jsonl").read_text(encoding="utf-8") == log
    kinds = [next(iter(json.loads(line))) for line in log.splitlines()]
    assert kinds.count("generation") == 4
    assert kinds.count("validation") == 3  # the start, and after two and four generations


@pytest.mark.parametrize("generation", [0, 2])
def test_a_search_that_was_stopped_in_a_validation_comes_out_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, generation: int
) -> None:
    whole = training(tmp_path / "whole").run(4)
    part = training(tmp_path / "parts")
    validate = part.validate

    def stopped() -> object:
        if part.search.generation == generation:
            raise KeyboardInterrupt
        return validate()

    monkeypatch.setattr(part, "validate", stopped)
    with pytest.raises(KeyboardInterrupt):
        part.run(4)
    parts = training(tmp_path / "parts").run(4)
    for name in (whole.name, "selector.json", "log.jsonl", "best.json", "last.json"):
        assert (parts.parent / name).read_bytes() == (whole.parent / name).read_bytes(), name


def test_a_search_that_was_stopped_at_any_write_comes_out_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = training(tmp_path / "whole").run(2)
    count, is_whole = 0, False
    while not is_whole:
        folder = tmp_path / str(count)
        with monkeypatch.context() as patch:
            stop_within(patch, count)
            try:
                training(folder).run(2)
                is_whole = True
            except Stopped:
                pass
        with (folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write('{"generation": {"numb')  # stopped within a line
        parts = training(folder).run(2)
        for name in (whole.name, "selector.json", "log.jsonl"):
            found = (parts.parent / name).read_bytes()
            assert found == (whole.parent / name).read_bytes(), f"{name} after {count} writes"
        count += 1
    assert count > 8


@pytest.mark.parametrize("name", ["last.json", "best.json", "scale.json"])
@pytest.mark.parametrize("content", [b"{", b"[]"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    training(tmp_path).run(1)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TrainError, match=rf"{name}: damaged"):
        training(tmp_path).run(1)


def test_what_is_released_is_the_best_in_validation(tmp_path: Path) -> None:
    search = training(tmp_path)
    model = load_onnx_selector(search.run(2), lambda: 0.0)
    lines = (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line).get("validation") for line in lines]
    least = min(one["to_teacher"] for one in found if one is not None)
    assert search.best_figures()["to_teacher"] == least
    assert search.compare(model).to_teacher == pytest.approx(least, rel=1e-6)


def test_a_folder_of_another_training_is_refused(tmp_path: Path) -> None:
    training(tmp_path)
    with pytest.raises(TrainError, match="another configuration"):
        training(tmp_path, replace(SHORT, seed=1))


def test_a_problem_with_a_known_optimum_is_solved(tmp_path: Path) -> None:
    runs = SelectorRuns("burst", (burst(),))
    parameters = replace(SHORT, episode_count=1, candidate_count=10)
    search = EvolutionTraining(runs, runs, parameters, tmp_path, {})
    longest_first = np.zeros(search.scale.size)
    longest_first[READ_COLUMNS.index("ln_rest")] = 1.0
    search.search = Evolution(longest_first, 0.3, 10, seed=0)
    model = search.scale.selector(longest_first)
    assert mean_jct_s(burst(), 0, model) > 2 * best_s()
    for _ in range(25):
        search.iterate()
        found_s = mean_jct_s(burst(), 0, search.scale.selector(search.search.mean))
        if found_s <= 1.001 * best_s():
            break
    assert found_s == pytest.approx(best_s(), rel=1e-3)


def test_the_later_part_of_each_trace_validates() -> None:
    parameters = EvolutionParameters(trained_frac=0.5, jobs_per_gpu=2.0)
    clusters = (cluster(1), cluster(2))
    trained, validated = (
        part_episodes((trace(),), clusters, parameters, is_trained=is_trained)
        for is_trained in (True, False)
    )
    assert [one.job_count for one in trained] == [8, 16]
    parts = trained[0].trace, validated[0].trace
    assert sum(map(len, parts)) == len(trace())
    assert parts[1].submit_s[0] + parts[0].span_s >= 0.0
    with pytest.raises(TooFewJobs):
        part_episodes(
            (trace(20),), clusters, replace(parameters, jobs_per_gpu=9.0), is_trained=True
        )
