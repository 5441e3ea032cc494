"""PPO, evolution and expert iteration from the same start, each with as many simulated decisions.

All begin at the learned order itself and play episodes of the same trace, cluster and world. A
decision is a job that is started in a simulation: by the policy that learns, by
a candidate of the evolution, or in a copy that is run ahead. A method ends with the first iteration
that uses its budget up. Its last policy counts, so no validation chooses. The models are written to
OUT/METHOD-SEED/selector.onnx, and `roost-sim compare --policies selector:FILE+...` judges them.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import _harness
import torch

from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.traces.formats import load_trace
from roost_sim.worlds.world_spec import Speed, WorldSpec
from roost_train.environments.episodes import Episodes
from roost_train.improvement.evolution import Evolution
from roost_train.improvement.expert_iteration import ExpertIteration, ExpertParameters
from roost_train.improvement.improvement import Improvement, Iteration, Learner
from roost_train.improvement.ppo import Ppo, PpoParameters
from roost_train.improvement.rollout_engine import InProcess
from roost_train.improvement.selector_agent import SelectorAgent
from roost_train.networks.score_selector import ScoreScale, ScoreSelector
from roost_train.networks.selector_net import SelectorNet
from roost_train.release.selector_release import Exportable, write_selector
from roost_train.selector.evolution_training import cost_of_candidates
from roost_train.selector.runs import RecordingModel, SelectorRuns, mean_jct_s

LEARNER_EPISODES, EVOLUTION_EPISODES, CANDIDATES = 4, 2, 8
FIRST_EPISODE, SEEDS_PER_GENERATION = 1_000_000, 10_000
AHEAD_S = 6 * 3_600.0


def improved(
    learner: Learner, episodes: Episodes, used: Callable[[Iteration], float], budget: float
) -> float:
    """Improve until the budget is used up; return the decisions used."""
    improvement, used_count = Improvement(learner, episodes), 0.0
    while used_count < budget:
        used_count += used(improvement.iterate())
    return used_count


def by_ppo(episodes: Episodes, seed: int, budget: float) -> tuple[Exportable, float]:
    """Return the policy after PPO, and the decisions used."""
    net = SelectorNet.residual()
    parameters = PpoParameters(
        seed=seed,
        first_episode=FIRST_EPISODE * (1 + seed),
        episode_count=LEARNER_EPISODES,
        passes=3,
        batch_count=128,
        rate=1e-3,
        entropy=0.0,
        anchor=0.1,
        critic_iterations=1,
    )
    return net, improved(Ppo(net, parameters), episodes, lambda one: one.decision_count, budget)


def by_expert(episodes: Episodes, seed: int, budget: float) -> tuple[Exportable, float]:
    """Return the policy after expert iteration, and the decisions used, those run ahead too."""
    net = SelectorNet.residual()
    parameters = ExpertParameters(
        seed=seed,
        first_episode=FIRST_EPISODE * (1 + seed),
        episode_count=LEARNER_EPISODES,
        sampled_frac=0.03,
        ahead_s=AHEAD_S,
        passes=16,
        batch_count=32,
        rate=1e-3,
        temperature=0.5,
        most_divergence=0.05,
    )
    span_s = sum(_span_s(episodes, number) for number in range(8)) / 8
    ahead = parameters.candidate_count * episodes.job_count * min(AHEAD_S / span_s, 1.0)

    def used(one: Iteration) -> float:
        return one.decision_count + ahead * one.ahead_count

    return net, improved(ExpertIteration(net, parameters), episodes, used, budget)


def by_evolution(episodes: Episodes, seed: int, budget: float) -> tuple[Exportable, float]:
    """Return the mean of the search, and the decisions used, the teacher's too."""
    recorder = RecordingModel(ScoreSelector.start())
    mean_jct_s(episodes, FIRST_EPISODE * (1 + seed) - 1, recorder)
    scale = ScoreScale.of([jobs for jobs, _ in recorder.queues])
    search, used_count = Evolution(scale.start(), 0.2, CANDIDATES, seed), 0
    runs = SelectorRuns("trained", (episodes,))
    while used_count < budget:
        first = FIRST_EPISODE * (1 + seed) + search.generation * SEEDS_PER_GENERATION
        candidates = search.ask()
        models = [scale.selector(one) for one in candidates]
        seeds = range(first, first + EVOLUTION_EPISODES)
        search.tell(candidates, cost_of_candidates(runs, seeds, models).tolist())
        used_count += len(seeds) * (len(models) + 1) * episodes.job_count
    return scale.selector(search.mean), used_count


METHODS = {"ppo": by_ppo, "expert": by_expert, "evolution": by_evolution}


def _span_s(episodes: Episodes, seed: int) -> float:
    """Return the time from the first to the last arrival of an episode."""
    trace = episodes.run(seed).trace
    return float(trace.submit_s[-1] - trace.submit_s[0])


def main() -> int:
    """Train one method with one seed, write the model, print what it used."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--seed", type=_harness.whole_or_0, default=0)
    parser.add_argument("--decisions", type=_harness.number, default=8_000, help="the budget")
    parser.add_argument("--jobs", type=_harness.whole, default=480, help="of an episode")
    parser.add_argument("--teacher", default="learned-trusting+common-shapes+patient-uplink-delay")
    parser.add_argument("-o", dest="out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    episodes = Episodes(
        trace=load_trace(arguments.trace).trace,
        clusters=(load_cluster(arguments.cluster),),
        job_count=arguments.jobs,
        loads=(1.1, 1.2, 1.3),
        teacher=arguments.teacher,
        world=WorldSpec(speed=Speed.MEASURED),
    )
    began_s = time.process_time()
    net, used_count = METHODS[arguments.method](episodes, arguments.seed, arguments.decisions)
    cpu_s = time.process_time() - began_s
    player = SelectorAgent(SelectorNet.residual())  # any decisions do to check the readings on
    saved = InProcess().collect(episodes, range(1), player).trajectories[0].decisions[::8]
    about = {name: str(value) for name, value in vars(arguments).items() if name != "out"}
    folder = arguments.out / f"{arguments.method}-{arguments.seed}"
    path = write_selector(net, saved, about, folder)
    print(json.dumps({"model": str(path), "decisions": round(used_count), "cpu_s": cpu_s}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
