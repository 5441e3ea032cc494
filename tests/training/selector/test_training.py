"""A short training from a trace to a model, stopped and continued."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.training.environments.small_episodes import cluster, trace

from roost_formats.models.order import load_onnx_selector
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_train.environments.slot_run import Reads, Slot
from roost_train.errors import TrainError
from roost_train.improvement.imitation import ImitationParameters
from roost_train.improvement.ppo import PpoParameters
from roost_train.improvement.rollout import play, teacher
from roost_train.improvement.selector_agent import SelectorAgent
from roost_train.selector.config import EpisodeNumbers, SelectorConfig, WarmStart
from roost_train.selector.start import read_selector
from roost_train.selector.training import SelectorTraining
from roost_train.selector.training_folder import TrainingFolder

pytestmark = pytest.mark.torch

SHORT = SelectorConfig(
    episodes=EpisodeNumbers(job_count=30, warm_count=8),
    imitation=ImitationParameters(passes=1),
    imitated_episodes=2,
    ppo=PpoParameters(episode_count=2, passes=1, critic_iterations=0),
    iterations=3,
    validated_episodes=2,
    validate_every=2,
)


def training(folder: Path, config: SelectorConfig = SHORT) -> SelectorTraining:
    return SelectorTraining(trace(), (cluster(),), config, folder)


class Stopped(Exception):
    """What a person does to a training."""


def stop_at(wanted: int) -> object:
    def meter(done: int, total: int) -> None:
        if done == wanted:
            raise Stopped

    return meter


def test_a_training_that_was_stopped_comes_out_the_same(tmp_path: Path) -> None:
    whole = training(tmp_path / "whole").run()
    for wanted in (0, 2):
        with pytest.raises(Stopped):
            training(tmp_path / "parts").run(stop_at(wanted))  # type: ignore[arg-type]
    with (tmp_path / "parts" / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"iteration": {"number"')  # stopped within a line
    parts = training(tmp_path / "parts").run()
    assert parts.read_bytes() == whole.read_bytes()
    log = (tmp_path / "whole" / "log.jsonl").read_text(encoding="utf-8")
    assert (tmp_path / "parts" / "log.jsonl").read_text(encoding="utf-8") == log
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["iteration"]["number"] for line in lines if "iteration" in line] == [1, 2, 3]
    assert [one["validation"]["iteration"] for one in lines if "validation" in one] == [0, 2, 3]


def stop_within(monkeypatch: pytest.MonkeyPatch, write_count: int) -> None:
    """Stop at the first write after so many: what it would have replaced is left as it was."""
    left = iter(range(write_count))
    replace_file, add_line = Path.replace, TrainingFolder.log

    def checked() -> None:
        if next(left, None) is None:
            raise Stopped

    def replaced(self: Path, target: Path) -> Path:
        checked()
        return replace_file(self, target)

    def logged(self: TrainingFolder, line: Mapping[str, object]) -> None:
        checked()
        add_line(self, line)

    monkeypatch.setattr(Path, "replace", replaced)
    monkeypatch.setattr(TrainingFolder, "log", logged)


def test_a_training_that_was_stopped_at_any_write_comes_out_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(SHORT, iterations=1, validate_every=1)
    whole = training(tmp_path / "whole", config).run()
    count, is_whole = 0, False
    while not is_whole:
        folder = tmp_path / str(count)
        with monkeypatch.context() as patch:
            stop_within(patch, count)
            try:
                training(folder, config).run()
                is_whole = True
            except Stopped:
                pass
        parts = training(folder, config).run()
        for name in (whole.name, "selector.json", "log.jsonl"):
            found = (parts.parent / name).read_bytes()
            assert found == (whole.parent / name).read_bytes(), f"{name} after {count} writes"
        count += 1
    assert count > 8


@pytest.mark.parametrize("seed", [-1, 500])
def test_no_warm_start_learns_from_episodes_of_validation(tmp_path: Path, seed: int) -> None:
    imitation = ImitationParameters(passes=1, seed=seed)
    with pytest.raises(TrainError, match=rf"imitation.seed {seed}: want 0 to 499; a later one"):
        training(tmp_path, replace(SHORT, imitation=imitation))
    training(tmp_path, replace(SHORT, imitation=replace(imitation, seed=499)))


def test_the_folder_has_a_model_that_loads_and_a_report(tmp_path: Path) -> None:
    told: list[str] = []
    made = SelectorTraining(trace(), (cluster(),), SHORT, tmp_path, told.append)
    path = made.run()
    load_onnx_selector(path, lambda: 0.0)
    assert "Validation" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert any(line.startswith("imitation 1/1") for line in told)
    assert made.best()["to_teacher"] > 0


def test_a_residual_start_decides_as_its_teacher_and_is_a_model_of_this_signature(
    tmp_path: Path,
) -> None:
    config = replace(SHORT, warm_start=WarmStart.RESIDUAL, iterations=0)
    made = training(tmp_path, config)
    path = made.run()
    load_onnx_selector(path, lambda: 0.0)
    assert (made.best()["to_teacher"], made.best()["to_teacher_error"]) == (1.0, 0.0)
    net, _ = read_selector(path)
    for own, wanted in zip(
        play(made.episodes, range(6), SelectorAgent(net)),
        play(made.episodes, range(6), teacher),
        strict=True,
    ):
        assert [one.action for one in own.decisions] == [one.action for one in wanted.decisions]
        assert own.decisions
        assert (own.rewards, own.at_s) == (wanted.rewards, wanted.at_s)


def test_a_residual_that_learned_nothing_better_is_released_as_it_began(tmp_path: Path) -> None:
    config = replace(SHORT, warm_start=WarmStart.RESIDUAL)
    begun = training(tmp_path / "begun", replace(config, iterations=0)).run()
    # A rate of 0 moves no weight, so no later validation is better than the first.
    still = replace(config, ppo=replace(config.ppo, rate=0.0))
    assert training(tmp_path / "still", still).run().read_bytes() == begun.read_bytes()


def test_a_residual_start_of_the_gate_and_a_graph_elsewhere_are_refused(tmp_path: Path) -> None:
    config = replace(
        SHORT,
        warm_start=WarmStart.RESIDUAL,
        episodes=replace(SHORT.episodes, slot=Slot.GATE),
    )
    with pytest.raises(TrainError, match="order and placement slots only"):
        training(tmp_path, config)
    config = replace(SHORT, episodes=replace(SHORT.episodes, reads=Reads.GRAPH))
    with pytest.raises(TrainError, match="placement slot only"):
        training(tmp_path, config)


def test_a_folder_of_another_training_is_refused(tmp_path: Path) -> None:
    training(tmp_path)
    with pytest.raises(TrainError, match="another configuration"):
        training(tmp_path, replace(SHORT, iterations=4))


@pytest.mark.parametrize("is_other_trace", [True, False])
def test_a_folder_of_a_file_of_the_same_name_is_refused(
    tmp_path: Path, is_other_trace: bool
) -> None:
    training(tmp_path)
    jobs, nodes = trace(), cluster()
    if is_other_trace:
        jobs = replace(jobs, duration_s=jobs.duration_s * 2.0)
    else:
        tiers = {tier: replace(spec, latency_s=1.0) for tier, spec in nodes.tiers.items()}
        nodes = ClusterSpec(nodes.name, nodes.source, nodes.nodes, tiers)
    with pytest.raises(TrainError, match="another configuration, trace or cluster"):
        SelectorTraining(jobs, (nodes,), SHORT, tmp_path)
