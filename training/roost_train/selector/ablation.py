"""What each part of the improvement is worth: the same training without it, again and again.

After DL2 (Peng et al., TPDS 2021, section 6.5), which leaves out reinforcement, experience replay,
job-aware exploration and the critic. PPO has no store of old decisions; several passes over those
of an iteration stand in for replay.

Every variant begins with the same warm start, plays the same episodes, and its last policy is
compared on episodes that chose nothing. Those are the same for all, so comparisons are paired.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.traces.trace import Trace
from roost_train.environments.episodes import Episodes
from roost_train.errors import TrainError
from roost_train.improvement.checkpoint import read_checkpoint
from roost_train.improvement.improvement import Method
from roost_train.improvement.rollout_engine import InProcess, Player, Teacher
from roost_train.improvement.selector_agent import SelectorAgent
from roost_train.networks.policy_net import net_of
from roost_train.selector.config import SelectorConfig
from roost_train.selector.training import SelectorTraining

FULL, SUPERVISED, TEACHER = "full", "supervised only", "teacher"
_FIRST_JUDGED = 700_000  # seeds of episodes; see `training` for those of others
_DRAWS = 2_000  # of the bootstrap
# What a variant has of the warm start: log, best and, last, start, which says that all are there.
_WARM_FILES = (("log.jsonl", "log.jsonl"), ("start.pt", "best.pt"), ("start.pt", "start.pt"))

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How a variant compares with another one, completion time over completion time.

    Attributes:
        variant: what was left out.
        ratio: geometric mean over seeds and episodes.
        low, high: 95 % of a bootstrap that draws both again, with replacement.
    """

    variant: str
    ratio: float
    low: float
    high: float


def variants(config: SelectorConfig) -> Mapping[str, SelectorConfig]:
    """Return the configurations to compare, by what each leaves out.

    Raises:
        TrainError: the configuration has not the parts that are to be left out.
    """
    ppo = config.ppo
    if config.improvement is not Method.PPO or not config.iterations or not ppo.critic:
        raise TrainError("want improvement: ppo with a critic and an iteration or more")
    if not ppo.explore_frac:
        raise TrainError("ppo.explore_frac: want above 0, as exploration is to be left out")
    if ppo.passes < 2:
        raise TrainError("ppo.passes: want 2 or more, as replay is to be left out")
    changed = {
        FULL: ppo,
        "without replay": replace(ppo, passes=1),
        "without exploration": replace(ppo, explore_frac=0.0),
        "without critic": replace(ppo, critic=False),
    }
    # Validation chooses nothing here, so the first one is the only one.
    base = replace(config, validate_every=config.iterations + 1)
    return {name: replace(base, ppo=one) for name, one in changed.items()}


class Ablation:
    """See the module. A call of `run` continues where an earlier one was stopped.

    Args:
        trace: the jobs.
        clusters: on which episodes are played.
        config: of the full training.
        folder: gets a folder for each training.
        tell: called with a line for people.
    """

    def __init__(
        self,
        trace: Trace,
        clusters: tuple[ClusterSpec, ...],
        config: SelectorConfig,
        folder: Path,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._trace, self._clusters = trace, clusters
        self._variants, self._folder, self._tell = variants(config), folder, tell

    def run(self, seeds: Sequence[int], judged_count: int) -> Mapping[str, Floats]:
        """Train and judge; return log completion times, [seed, episode], by variant."""
        found = dict[str, list[Floats]]()
        judged = range(_FIRST_JUDGED, _FIRST_JUDGED + judged_count)
        of_teacher: Floats | None = None
        for seed in seeds:
            warm: Path | None = None
            for name, config in self._variants.items():
                training = self._training(name, config, seed, warm)
                self._tell(f"seed {seed}: {name}")
                training.run()
                warm = warm or training.folder
                if of_teacher is None:
                    of_teacher = _judge(training.episodes, judged, Teacher())
                if name == FULL:
                    start = self._judged(training, "start.pt", judged)
                    found.setdefault(TEACHER, []).append(of_teacher)
                    found.setdefault(SUPERVISED, []).append(start)
                found.setdefault(name, []).append(self._judged(training, "last.pt", judged))
        return {name: np.stack(lines) for name, lines in found.items()}

    def _training(
        self, name: str, config: SelectorConfig, seed: int, warm: Path | None
    ) -> SelectorTraining:
        folder = self._folder / f"{name.replace(' ', '-')}-{seed}"
        seeded = replace(
            config,
            imitation=replace(config.imitation, seed=seed),
            ppo=replace(config.ppo, seed=seed),
        )
        training = SelectorTraining(self._trace, self._clusters, seeded, folder, self._tell)
        if warm is not None and not (folder / "start.pt").exists():
            for source, name_there in _WARM_FILES:
                beside = folder / f"{name_there}.part"
                shutil.copy(warm / source, beside)
                beside.replace(folder / name_there)
        return training

    def _judged(self, training: SelectorTraining, file: str, judged: range) -> Floats:
        kept = training.folder / f"judged-{file}-{len(judged)}.json"
        if kept.exists():
            return np.array(training.files.document(kept.name))
        player = SelectorAgent(net_of(read_checkpoint(training.folder / file)))
        found = _judge(training.episodes, judged, player)
        training.files.write(kept.name, json.dumps(found.tolist()))
        return found


def _judge(episodes: Episodes, seeds: range, player: Player) -> Floats:
    played = InProcess().collect(episodes, seeds, player, lambda done_count: None)
    return np.log([one.mean_jct_s for one in played.trajectories])


def effects(logs: Mapping[str, Floats], reference: str) -> list[Effect]:
    """Return how each variant compares with one of them.

    Args:
        logs: [seed, episode], by variant.
        reference: the variant to compare with.
    """
    found = []
    for name, lines in logs.items():
        if name == reference:
            continue
        change = lines - logs[reference]
        rng = np.random.default_rng(0)
        drawn = [_drawn_mean(change, rng) for _ in range(_DRAWS)]
        low, high = np.exp(np.quantile(drawn, (0.025, 0.975)))
        ratio = float(np.exp(change.mean()))
        found.append(Effect(variant=name, ratio=ratio, low=float(low), high=float(high)))
    return found


def _drawn_mean(change: Floats, rng: np.random.Generator) -> float:
    """Return the mean where seeds and episodes are drawn again, with replacement."""
    seeds, episodes = (rng.integers(count, size=count) for count in change.shape)
    return float(change[np.ix_(seeds, episodes)].mean())


def as_table(found: Sequence[Effect], reference: str) -> str:
    """Return effects as lines for people."""
    width = max(len(one.variant) for one in found)
    lines = [f"completion time over that of: {reference} (95 %)"]
    lines += [
        f"{one.variant:<{width}}  {one.ratio:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in found
    ]
    return "\n".join(lines)


def as_document(found: Sequence[Effect]) -> list[dict[str, object]]:
    """Return effects as plain data."""
    return [asdict(one) for one in found]
