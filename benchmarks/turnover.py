"""How fast short jobs follow each other on real Slurm, with Roost and without.

Two clusters side by side, alike but for Roost, hooks included, take turns: what is measured on one
runs while the other is idle. Each kind of work offers more than the GPUs can run at once:

* array: the tasks of one array with a limit of as many as there are GPUs;
* singles: jobs of one GPU that are all submitted before;
* sruns: one `srun` after the other from as many clients as asked for, each a job of its own;
* steps: one `srun` after the other within a job that has all GPUs of a node;
* resume: the time from `scontrol update state=resume` to the first line of a job that waits for the
  node, after a drain, after a state of DOWN, and after slurmd was killed and started again. From
  24.11 on a node leaves DOWN by itself here (ReturnToService=2): there is no such figure then.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import _harness

from roost_demo.stack import NodeKind, Stack
from roost_slurm.testing.cluster_plan import ClusterPlan, HookPlan
from roost_slurm.testing.local_slurm import LocalSlurm

_NODES = (NodeKind(name="n1", topology="nvswitch8"), NodeKind(name="n2", topology="nvswitch8"))
_GPU_COUNT = 16
_TASK_COUNT = 5_000
_POLL_S = 0.1
_DONE = "done"  # a line a run: its start and its end, in seconds since the epoch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", default="array,singles,sruns,steps,resume")
    parser.add_argument("--rounds", type=_harness.whole, default=3, help="turns of each cluster")
    parser.add_argument(
        "--seconds", type=_harness.number, default=45.0, help="of a turn of array and sruns"
    )
    parser.add_argument("--run-s", type=_harness.number, default=1.0, help="length of a job")
    parser.add_argument(
        "--jobs", type=_harness.whole, default=200, help="jobs of singles, and steps"
    )
    parser.add_argument(
        "--clients", type=_harness.whole, default=4, help="that call srun at the same time"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    _harness.stop_on_signals()
    kinds: dict[str, Callable[[LocalSlurm], dict[str, float]]] = {
        "array": partial(measure_array, run_s=options.run_s, seconds=options.seconds),
        "singles": partial(measure_singles, run_s=options.run_s, count=options.jobs),
        "sruns": partial(
            measure_sruns, run_s=options.run_s, seconds=options.seconds, clients=options.clients
        ),
        "steps": partial(measure_steps, count=options.jobs),
        "resume": measure_resume,
    }
    figures: dict[str, object] = {}
    with Stack(_NODES, amend_plan=_with_long_arrays) as stack:
        alike = replace(
            stack.slurm.plan, job_submit_lua=None, cli_filter_lua=None, hooks=HookPlan()
        )
        with LocalSlurm(alike) as plain:
            clusters = {"plain": plain, "roost": stack.slurm}
            for kind in options.kinds.split(","):
                figures |= _in_turns(kind, kinds[kind], clusters, options.rounds)
    _harness.report(figures, as_json=options.json)


def _with_long_arrays(plan: ClusterPlan) -> ClusterPlan:
    return replace(plan, extra_lines=(*plan.extra_lines, f"MaxArraySize={_TASK_COUNT + 1}"))


def _in_turns(
    kind: str,
    measure: Callable[[LocalSlurm], dict[str, float]],
    clusters: dict[str, LocalSlurm],
    round_count: int,
) -> dict[str, object]:
    """Return the figures of all turns, and the medians of both clusters and their ratio."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in clusters}
    for turn in range(round_count):
        for name in sorted(clusters, reverse=bool(turn % 2)):
            for figure, value in measure(clusters[name]).items():
                found[name].setdefault(figure, []).append(value)
                print(f"{kind}: {name} {figure} {value:.3f}", file=sys.stderr)
    figures: dict[str, object] = {}
    for figure in [one for one in found["plain"] if one in found["roost"]]:
        medians = {name: statistics.median(of[figure]) for name, of in found.items()}
        for name, of in found.items():
            figures[f"{kind}_{name}_{figure}"] = of[figure]
            figures[f"{kind}_{name}_{figure}_median"] = medians[name]
        figures[f"{kind}_{figure}_ratio"] = medians["roost"] / medians["plain"]
    return figures


def measure_array(cluster: LocalSlurm, *, run_s: float, seconds: float) -> dict[str, float]:
    """Return how many tasks of an array end in a second."""
    _forget(cluster)
    options = (f"--array=0-{_TASK_COUNT - 1}%{_GPU_COUNT}", "--gres=gpu:1", "--output=/dev/null")
    job_id = cluster.submit(*options, script=_script(run_s))
    time.sleep(seconds)
    ended_count = len(_done(cluster))
    cluster.run("scancel", job_id)
    _wait_until_empty(cluster)
    return {"per_s": ended_count / seconds}


def measure_singles(cluster: LocalSlurm, *, run_s: float, count: int) -> dict[str, float]:
    """Return how many jobs end in a second, from the first call of sbatch to the last end."""
    _forget(cluster)
    script, began_s = _script(run_s), time.time()
    loop = f"for i in $(seq {count}); do sbatch -Q --gres=gpu:1 -o /dev/null job.sh || exit 1; done"
    (cluster.folder.root / "work" / "job.sh").write_text(script)
    cluster.run("sh", "-c", loop)
    while len(_done(cluster)) < count:
        time.sleep(_POLL_S)
    return {"per_s": count / (max(end_s for _, end_s in _done(cluster)) - began_s)}


def measure_sruns(
    cluster: LocalSlurm, *, run_s: float, seconds: float, clients: int
) -> dict[str, float]:
    """Return how many jobs end in a second that clients start with srun, one after the other."""
    _forget(cluster)
    (cluster.folder.root / "work" / "job.sh").write_text(_script(run_s))
    loop = f"end=$(($(date +%s) + {round(seconds)}))\n"
    loop += "while [ $(date +%s) -lt $end ]; do srun -Q --gres=gpu:1 sh job.sh; done"
    began_s = time.time()
    script = f"for i in $(seq {clients}); do (\n{loop}\n) & done; wait"
    cluster.run("sh", "-c", script, timeout_s=seconds + 60.0)
    ends_s = [end_s for _, end_s in _done(cluster) if end_s <= began_s + seconds]
    return {"per_s": len(ends_s) / seconds}


def measure_steps(cluster: LocalSlurm, *, count: int) -> dict[str, float]:
    """Return how many steps end in a second within a job that runs one after the other."""
    _forget(cluster)
    loop = f"b=$(date +%s.%N); for i in $(seq {count}); do srun -Q --gres=gpu:1 true; done\n"
    job_id = cluster.submit("--gres=gpu:8", script=f"{loop}echo $b $(date +%s.%N) >>{_DONE}")
    cluster.wait_for_state(job_id, "COMPLETED", timeout_s=600.0)
    began_s, ended_s = _done(cluster)[0]
    return {"per_s": count / (ended_s - began_s)}


def measure_resume(cluster: LocalSlurm) -> dict[str, float]:
    """Return the seconds from a node's return to the first line of a job that waits for it."""
    found = {
        "drained_s": _resume_s(cluster, "drain"),
        "down_s": _resume_s(cluster, "down"),
        "restarted_s": _restart_s(cluster),
    }
    return {figure: value for figure, value in found.items() if value is not None}


def _resume_s(cluster: LocalSlurm, state: str) -> float | None:
    """Return the time from `state=resume`; None: the node has left the state by itself."""
    cluster.run("scontrol", "update", "nodename=n2", f"state={state}", "reason=benchmark")
    job_id = _wait_for_node(cluster)
    if state not in cluster.run("sinfo", "-h", "-n", "n2", "-o", "%T"):
        _wait_until_empty(cluster)
        return None
    began_s = time.time()
    cluster.run("scontrol", "update", "nodename=n2", "state=resume")
    return _first_line_s(cluster, job_id) - began_s


def _restart_s(cluster: LocalSlurm) -> float:
    """Return the time from the moment at which Slurm shows the node as idle again."""
    cluster.stop_node("n2")
    cluster.run("scontrol", "update", "nodename=n2", "state=down", "reason=benchmark")
    job_id = _wait_for_node(cluster)
    cluster.start_node("n2")
    while "idle" not in cluster.run("sinfo", "-h", "-n", "n2", "-o", "%T"):
        time.sleep(_POLL_S)
    began_s = time.time()
    return _first_line_s(cluster, job_id) - began_s


def _wait_for_node(cluster: LocalSlurm) -> str:
    """Submit a job that can run on n2 alone, and let it wait for some seconds."""
    job_id = cluster.submit("--gres=gpu:1", "-w", "n2", script="date +%s.%N")
    time.sleep(13.0 + time.time() % 3.0)  # longer than roostd's interval, and not locked to it
    return job_id


def _first_line_s(cluster: LocalSlurm, job_id: str) -> float:
    cluster.wait_for_state(job_id, "COMPLETED")
    return float(cluster.output(job_id))


def _script(run_s: float) -> str:
    folder_line = f"b=$(date +%s.%N); sleep {run_s}; echo $b $(date +%s.%N) >>{_DONE}"
    return f"#!/bin/sh\n{folder_line}\n"


def _done(cluster: LocalSlurm) -> list[tuple[float, float]]:
    file = cluster.folder.root / "work" / _DONE
    lines = file.read_text().splitlines() if file.exists() else []
    return [(float(one), float(other)) for one, other in map(str.split, lines)]


def _forget(cluster: LocalSlurm) -> None:
    _wait_until_empty(cluster)
    (cluster.folder.root / "work" / _DONE).unlink(missing_ok=True)


def _wait_until_empty(cluster: LocalSlurm) -> None:
    while cluster.run("squeue", "-h"):
        time.sleep(_POLL_S)


if __name__ == "__main__":
    main()
