"""How fast environments decide: simulations side by side, one call of a network for all of them.

Helios-like jobs on a cluster of 64 GPUs at an offered load of 1.1. Seconds are CPU seconds of this
one process, so they depend little on what else the machine does. Decisions of the warm-up, which
the teacher makes, are not counted but take time. Where one action only is allowed nothing is asked;
`decisions_per_cpu_s` counts what was asked, `with_forced_per_cpu_s` these too. The profile names
the functions that took most, and the share of whole parts: the engine's steps, the description of
queue and cluster, the network.
"""

import argparse
import cProfile
import pstats
import time
from pathlib import Path

import _harness
import torch

from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.formats import load_trace
from roost_sim.traces.generator import generate
from roost_train.environments.episodes import Episodes
from roost_train.environments.run_batch import ChoiceBatch, RunBatch
from roost_train.environments.slot_run import Slot
from roost_train.networks.policy_net import PolicyNet, fresh_net
from roost_train.networks.selector_net import masked_logs

_SHOWN_FUNCTIONS = 12
_PARTS = (  # none of them calls another
    "engine.step",
    "paused_run._turn_now",
    "paused_run._described",
    "selector_net.forward",
    "slot_net.forward",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=16, help="simulations side by side")
    parser.add_argument("--trace", type=Path, help="draw episodes from it, instead of made-up jobs")
    parser.add_argument("--cluster", default="small")
    parser.add_argument("--slot", type=Slot, choices=list(Slot), default=Slot.ORDER)
    parser.add_argument("--load", type=float, default=1.1)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    trace = load_trace(options.trace).trace if options.trace else generate(HELIOS, 4_000, seed=0)
    episodes = Episodes(
        trace=trace,
        clusters=(load_cluster(options.cluster),),
        loads=(options.load,),
        job_count=1_000,
        warm_count=0,
        slot=options.slot,
    )
    batch, net = RunBatch(episodes, range(options.runs)), fresh_net(options.slot).eval()
    _decide(batch, net, options.runs)  # warm-up
    forced_before, began_s = batch.forced_count, time.process_time()
    job_count = _decide(batch, net, options.decisions)
    took_s = time.process_time() - began_s
    carried_out = options.decisions + batch.forced_count - forced_before
    profile = cProfile.Profile()
    profile.runcall(_decide, batch, net, options.decisions // 4)
    figures = {
        "decisions": options.decisions,
        "cpu_s": round(took_s, 3),
        "decisions_per_cpu_s": round(options.decisions / took_s, 1),
        "with_forced_per_cpu_s": round(carried_out / took_s, 1),
        "jobs_per_decision": round(job_count / options.decisions, 1),
        "runs": options.runs,
        "slot": options.slot.value,
        "parts": _parts(profile),
        "profile": _most(profile),
    }
    _harness.report(figures, as_json=options.json)
    return 0


def _decide(batch: RunBatch, net: PolicyNet, decision_count: int) -> int:
    """Make so many decisions; return the number of jobs to choose from, over all of them."""
    shown = 0
    with torch.inference_mode():
        for _ in range(-(-decision_count // len(batch.choices))):
            arrays = ChoiceBatch.of(batch.choices)
            shown += int(arrays.present.sum())
            ranks = net(torch.from_numpy(arrays.jobs), torch.from_numpy(arrays.cluster))
            positions = masked_logs(ranks, torch.from_numpy(arrays.mask)).argmax(dim=1).tolist()
            batch.step([arrays.action(*pair) for pair in enumerate(positions)])
    return shown


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
