"""How fast environments decide: whole episodes side by side, as training plays them.

Helios-like jobs on a cluster of 64 GPUs at an offered load of 1.1; actions are drawn by a fresh
network, one call for all episodes that wait for a decision. Seconds are CPU seconds of this one
process, so they depend little on what else the machine does. Where one action only is allowed
nothing is asked; `decisions_per_cpu_s` counts what was asked, `with_forced_per_cpu_s` these too.
The profile names the functions that took most, and the share of whole parts: the engine's steps,
what may be chosen, the description of queue and cluster, the network.
"""

import argparse
import cProfile
import pstats
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import _harness
import torch

from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.formats import load_trace
from roost_sim.traces.generator import generate
from roost_train.environments.decision_run import Choices, DecisionRun, Seen
from roost_train.environments.episodes import Episodes
from roost_train.environments.slot_run import Slot
from roost_train.improvement.rollout import play
from roost_train.improvement.selector_agent import SelectorAgent
from roost_train.networks.policy_net import PolicyNet, fresh_net

_SHOWN_FUNCTIONS = 12
_PARTS = (  # none of them calls another
    "engine.step",
    "paused_run._turn_now",
    "paused_run._described",
    "selector_agent.__call__",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=_harness.whole, default=500, help="of each episode")
    parser.add_argument("--runs", type=_harness.whole, default=16, help="episodes side by side")
    parser.add_argument("--trace", type=Path, help="draw episodes from it, instead of made-up jobs")
    parser.add_argument("--cluster", default="small")
    parser.add_argument("--slot", type=Slot, choices=list(Slot), default=Slot.ORDER)
    parser.add_argument("--load", type=_harness.number, default=1.1)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    trace = load_trace(options.trace).trace if options.trace else generate(HELIOS, 4_000, seed=0)
    episodes = Episodes(
        trace=trace,
        clusters=(load_cluster(options.cluster),),
        loads=(options.load,),
        job_count=options.jobs,
        warm_count=0,
        slot=options.slot,
    )
    net, seeds = fresh_net(options.slot).eval(), range(options.runs)
    _play(replace(episodes, job_count=20), seeds, net)  # warm-up
    began_s = time.process_time()
    asked = _play(episodes, seeds, net)
    took_s = time.process_time() - began_s
    profile = cProfile.Profile()
    profile.runcall(_play, episodes, range(-(-options.runs // 4)), net)
    figures = {
        "decisions": asked.decision_count,
        "cpu_s": round(took_s, 3),
        "decisions_per_cpu_s": round(asked.decision_count / took_s, 1),
        "with_forced_per_cpu_s": round((asked.decision_count + asked.forced_count) / took_s, 1),
        "jobs_per_decision": round(asked.shown_count / asked.decision_count, 1),
        "runs": options.runs,
        "slot": options.slot.value,
        "parts": _parts(profile),
        "profile": _most(profile),
    }
    _harness.report(figures, as_json=options.json)
    return 0


class _Asked:
    """An agent that counts what it is asked.

    Attributes:
        decision_count: how often.
        shown_count: jobs to choose from, over all decisions.
    """

    def __init__(self, net: PolicyNet) -> None:
        self._agent, self._runs = SelectorAgent(net, draw_seed=0), dict[int, DecisionRun]()
        self.decision_count = self.shown_count = 0

    def __call__(
        self, runs: Sequence[DecisionRun], choices: Sequence[Choices[Seen]]
    ) -> Sequence[int]:
        self._runs |= {run.seed: run for run in runs}
        self.decision_count += len(choices)
        self.shown_count += sum(len(one.seen.jobs) for one in choices)
        return self._agent(runs, choices)

    @property
    def forced_count(self) -> int:
        """Decisions with one allowed action, which were carried out without being asked."""
        return sum(run.forced_count for run in self._runs.values())


def _play(episodes: Episodes, seeds: Sequence[int], net: PolicyNet) -> _Asked:
    """Play the episodes of these seeds to their ends, side by side."""
    asked = _Asked(net)
    play(episodes, seeds, asked)
    return asked


def _parts(profile: cProfile.Profile) -> dict[str, str]:
    """Return the share of the time that was spent in each part, and in what it called."""
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = sum(own for _, _, own, _, _ in stats.values())
    found = dict.fromkeys(_PARTS, 0.0)
    for (file, _, name), (_, _, _, whole, _) in stats.items():
        if (part := f"{Path(file).stem}.{name}") in found:
            found[part] += whole
    return {part: f"{whole / total:.0%}" for part, whole in found.items()}


def _most(profile: cProfile.Profile) -> list[str]:
    """Return the functions that took most of the time, each with its share."""
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    total = sum(own for _, _, own, _, _ in stats.values())
    ordered = sorted(stats.items(), key=lambda item: -item[1][2])[:_SHOWN_FUNCTIONS]
    return [
        f"{own / total:.0%} {Path(file).stem}.{name}"
        for (file, _, name), (_, _, own, _, _) in ordered
    ]


if __name__ == "__main__":
    raise SystemExit(main())
