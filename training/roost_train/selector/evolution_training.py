"""The training of a score selector by evolution, from traces to a model file.

Each generation simulates every candidate on the same fresh episodes. A candidate's cost is the
mean logarithm of its completion time over the teacher's: paired, so that the draw of the jobs
cancels out. The mean of the search is compared with the teacher on episodes of validation, and the
best one becomes the model. Everything lies in one folder, and the same call continues from there:

| file | content |
|---|---|
| config.json | everything that decides how the training comes out |
| scale.json | the spread of the columns |
| last.json | the search after its last generation |
| best.json | the numbers that were best in validation; the start counts too |
| log.jsonl | a line for each generation and each validation |
| selector.onnx, selector.json | the best selector |
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roost_engine.queue.selector import RankModel
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.traces.trace import Trace
from roost_train.environments.decisions import Decision
from roost_train.environments.episodes import Episodes
from roost_train.errors import TooFewJobs, TrainError
from roost_train.improvement.evolution import Evolution
from roost_train.networks.score_selector import READ_COLUMNS, ScoreScale, ScoreSelector
from roost_train.release.selector_release import write_selector
from roost_train.selector.runs import Case, Queue, RecordingModel, SelectorRuns, mean_jct_s
from roost_train.selector.training_folder import TrainingFolder

_FIRST_VALIDATION = 500_000
_WARM_FRAC = 1 / 6  # of an episode's jobs, which do not count: the history is still empty
_SAVED_EPISODES, _SAVED_COUNT = 3, 64  # decisions on which a release is checked
_SEEDS_PER_GENERATION = 10_000  # far apart, so that no episode comes twice


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolutionParameters:
    """How a score selector is searched.

    Attributes:
        seed: of the draws.
        first_episode: seed of the first episode; validation takes others.
        episode_count: that each candidate is simulated on in a generation.
        candidate_count: of a generation.
        step: the first standard deviation, in those of the columns.
        measured_episodes: of the start, on which the spread of the columns is measured.
        validated_episodes: simulated in a validation.
        validate_every: so many generations.
        trained_frac: the share of each trace's time that is trained on; the rest validates.
        jobs_per_gpu: jobs of an episode, by the cluster's GPUs.
        loads: offered loads, one of which is drawn for each episode.
        teacher: the policy to start from and to compare with; only its order is replaced.
    """

    seed: int = 0
    first_episode: int = 1_000_000
    episode_count: int = 12
    candidate_count: int = 24
    step: float = 0.2
    measured_episodes: int = 6
    validated_episodes: int = 48
    validate_every: int = 3
    trained_frac: float = 0.7
    jobs_per_gpu: float = 6.0
    loads: tuple[float, ...] = (1.0, 1.15, 1.3)
    teacher: str = "learned+consolidation+patient"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A selector beside the teacher, on the same episodes.

    Attributes:
        generation: of the search whose mean it is.
        to_teacher: geometric mean of its completion times over the teacher's.
        error: standard error of the logarithm of that.
    """

    generation: int
    to_teacher: float
    error: float


def part_episodes(
    traces: Sequence[Trace],
    clusters: Sequence[ClusterSpec],
    parameters: EvolutionParameters,
    *,
    is_trained: bool,
) -> tuple[Episodes, ...]:
    """Return the episodes of the trained or the validated part of each trace, on each cluster."""
    found = []
    for cluster in clusters:
        for trace in traces:
            end_s = float(trace.submit_s[-1]) + 1.0
            middle_s = parameters.trained_frac * end_s
            part = trace.window(*((0.0, middle_s) if is_trained else (middle_s, end_s)))
            job_count = round(parameters.jobs_per_gpu * cluster.gpu_count)
            if len(part) < job_count:
                raise TooFewJobs(trace.source, len(part), job_count, f"for {cluster.name}")
            episodes = Episodes(
                trace=part,
                clusters=(cluster,),
                job_count=job_count,
                warm_count=round(_WARM_FRAC * job_count),
                loads=parameters.loads,
                teacher=parameters.teacher,
            )
            found.append(episodes)
    return tuple(found)


class EvolutionTraining:
    """See the module.

    Args:
        trained, validated: the episodes to learn from and those to choose by, which take turns.
        parameters: the numbers.
        folder: where the files are; made if it is missing.
        about: what the card says of traces and clusters; a folder with another is refused.
        tell: called with a line for people.

    Raises:
        TrainError: the folder holds another training, or no queue has two jobs.
    """

    def __init__(
        self,
        trained: SelectorRuns,
        validated: SelectorRuns,
        parameters: EvolutionParameters,
        folder: Path,
        about: Mapping[str, Any],
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.parameters, self.folder, self._tell = parameters, folder, tell
        self._trained, self._validated = trained, validated
        self._seeds = range(_FIRST_VALIDATION, _FIRST_VALIDATION + parameters.validated_episodes)
        self._of_teacher: list[float] = []
        self.about = {**about, "evolution": asdict(parameters)}
        self._files = TrainingFolder(folder, self.about)
        self.scale = self._measured()
        self.search = Evolution(
            self.scale.start(), parameters.step, parameters.candidate_count, parameters.seed
        )
        if (last := folder / "last.json").exists():
            try:
                self.search.restore(self._files.document(last.name))
            except (KeyError, TypeError, ValueError) as error:
                raise TrainError(f"{last}: damaged; begin again in another folder") from error
        self._forget_after(self.search.generation)

    def run(self, generations: int, goes_on: Callable[[], bool] = lambda: True) -> Path:
        """Search from wherever an earlier call has come to, and release the best.

        Args:
            generations: of the search, with those of earlier calls.
            goes_on: asked before each generation.
        """
        self._validate_if_due()
        while self.search.generation < generations and goes_on():
            cost = self.iterate()
            number, step = self.search.generation, self.search.step
            self._tell(f"generation {number}: mean cost {cost:+.4f}, step {step:.3f}")
            self._validate_if_due()
        if not self._is_validated():
            self.validate()
        return self.release()

    def _validate_if_due(self) -> None:
        """Validate where the interval wants it, and an earlier call was not stopped before it."""
        due = self.search.generation % self.parameters.validate_every == 0
        if due and not self._is_validated():
            self.validate()

    def _is_validated(self) -> bool:
        """Return whether the search as it is now was compared with the teacher."""
        validated = [one["generation"] for one in self._files.lines("validation")]
        return self.search.generation in validated

    def iterate(self) -> float:
        """Simulate a generation and learn from it; return the mean cost of its candidates."""
        parameters, search = self.parameters, self.search
        first = parameters.first_episode + search.generation * _SEEDS_PER_GENERATION
        seeds = range(first, first + parameters.episode_count)
        candidates = search.ask()
        models = [self.scale.selector(one) for one in candidates]
        costs = cost_of_candidates(self._trained, seeds, models)
        search.tell(candidates, costs.tolist())
        figures = {
            "number": search.generation,
            "mean_cost": float(costs.mean()),
            "best_cost": float(costs.min()),
            "step": search.step,
        }
        self._files.log({"generation": figures})
        self._files.write("last.json", json.dumps(search.state()))
        return float(costs.mean())

    def validate(self) -> Comparison:
        """Compare the mean of the search with the teacher, and keep it if it is the best so far."""
        earlier = [one["to_teacher"] for one in self._files.lines("validation")]
        found = self.compare(self.scale.selector(self.search.mean))
        change = f"{found.to_teacher - 1:+.1%} (standard error {found.error:.1%})"
        self._tell(f"generation {found.generation}: completion time {change} of the teacher's")
        if not earlier or found.to_teacher < min(earlier):
            body = {**asdict(found), "mean": self.search.mean.tolist()}
            self._files.write("best.json", json.dumps(body))
        self._files.log({"validation": asdict(found)})  # last: a line says that all was written
        return found

    def compare(self, model: RankModel) -> Comparison:
        """Compare any selector with the teacher on the episodes of validation."""
        if not self._of_teacher:
            self._of_teacher = self._validated.jcts_s([Case(seed, None) for seed in self._seeds])
        own = self._validated.jcts_s([Case(seed, model) for seed in self._seeds])
        logs = np.log(np.array(own) / np.array(self._of_teacher))
        return Comparison(
            generation=self.search.generation,
            to_teacher=float(np.exp(logs.mean())),
            error=float(logs.std(ddof=1) / len(logs) ** 0.5) if len(logs) > 1 else 0.0,
        )

    def best(self) -> ScoreSelector:
        """Return the selector that was best in validation."""
        return self.scale.selector(self._numbers("best.json", self._best_body().get("mean")))

    def best_figures(self) -> Mapping[str, Any]:
        """Return how it did there; see Comparison."""
        return {name: value for name, value in self._best_body().items() if name != "mean"}

    def _best_body(self) -> dict[str, Any]:
        body = self._files.document("best.json")
        return body if isinstance(body, dict) else {}

    def _numbers(self, name: str, value: object) -> NDArray[np.float64]:
        """Return the numbers of a file: one a column in `scale.json`, one a parameter elsewhere.

        Raises:
            TrainError: they are not.
        """
        count = len(READ_COLUMNS) if name == "scale.json" else self.scale.size
        try:
            found = np.array(value, dtype=np.float64)
        except (TypeError, ValueError):
            found = np.zeros(0)
        if found.shape != (count,) or not np.isfinite(found).all():
            raise TrainError(f"{self.folder / name}: damaged; begin again in another folder")
        return found

    def release(self) -> Path:
        """Write the best selector as a model that a daemon loads, and return its path."""
        best, decisions = self.best(), list[Decision]()
        for seed in self._seeds[:_SAVED_EPISODES]:
            queues = self._queues(self._validated, seed, best)
            decisions += [_any_decision(jobs, cluster) for jobs, cluster in queues]
        saved = decisions[:: max(len(decisions) // _SAVED_COUNT, 1)]
        card = {**self.about, "best": self.best_figures()}
        return write_selector(best, saved, card, self.folder)

    # -- its files -------------------------------------------------------------------------

    def _measured(self) -> ScoreScale:
        """Return the scale of the numbers, measured now or by an earlier call."""
        path = self.folder / "scale.json"
        if not path.exists():
            first = self.parameters.first_episode - self.parameters.measured_episodes
            seeds = range(first, self.parameters.first_episode)
            start = ScoreSelector.start()
            queues = [one for seed in seeds for one in self._queues(self._trained, seed, start)]
            if not queues:
                raise TrainError("no two jobs ever wait together: take a higher load or more jobs")
            scale = ScoreScale.of([jobs for jobs, _ in queues])
            self._files.write(path.name, json.dumps(scale.spread.tolist()))
        return ScoreScale(self._numbers(path.name, self._files.document(path.name)))

    def _queues(self, runs: SelectorRuns, seed: int, model: RankModel) -> list[Queue]:
        """Return some of the queues that a selector ranks in an episode."""
        recorder = RecordingModel(model)
        mean_jct_s(runs.of_seed(seed), seed, recorder)
        return recorder.queues

    def _forget_after(self, generation: int) -> None:
        """Drop the lines of generations that came after the last one that was stored."""
        self._files.keep_lines(
            lambda line: line.get("generation", {}).get("number", 0) <= generation
        )


def cost_of_candidates(
    runs: SelectorRuns, seeds: Sequence[int], models: Sequence[RankModel]
) -> NDArray[np.float64]:
    """Return the mean logarithm of each candidate's completion time over the teacher's: [model].

    Args:
        runs: simulates.
        seeds: of the episodes, which are the same for all.
        models: the candidates.
    """
    cases = [Case(seed, model) for seed in seeds for model in (None, *models)]
    logs = np.log(runs.jcts_s(cases)).reshape(len(seeds), 1 + len(models))
    costs: NDArray[np.float64] = (logs[:, 1:] - logs[:, :1]).mean(axis=0)
    return costs


def _any_decision(jobs: NDArray[np.float32], cluster: NDArray[np.float32]) -> Decision:
    """Return a queue as a decision, for readings that compare ranks and nothing else."""
    return Decision(jobs, cluster, np.ones(len(jobs) + 1, dtype=np.bool_), 0)
