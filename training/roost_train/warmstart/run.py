"""One warm start, from a file of jobs to a model and its comparison with the teacher."""

from collections.abc import Callable, Mapping
from pathlib import Path

from roost_formats.models.model_order import load_onnx_order
from roost_sim.catalogue.composition import Composition
from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.traces.trace import Trace
from roost_train.warmstart.decisions import preferences
from roost_train.warmstart.replay import (
    compare,
    imitation_of,
    jobs_of,
    lesson_of,
    recorded_starts_s,
    run_policy,
)
from roost_train.warmstart.warmstart import WarmstartParameters, imitate, write_order

REAL = "recorded starts"
HELD_OUT_FRAC = 0.3  # of the trace's time: nothing of it is learned, and its jobs are compared
_PLAIN = Composition(name="fifo", order="fifo")

Progress = Callable[[int], Callable[[int, float], None]]


def warm_start(
    trace: Trace,
    teacher: str | None,
    cluster_name: str,
    folder: Path,
    *,
    seed: int,
    command: str,
    progress: Progress,
) -> Mapping[str, object]:
    """Imitate a teacher, write the model, and replay the jobs under both where that is possible.

    A simulated teacher is learned from the first part of the trace only. Both replay the whole
    trace, and the jobs of the rest are compared.

    Args:
        trace: the jobs.
        teacher: a policy of the simulator; None: the starts that the trace records.
        cluster_name: of the simulations.
        folder: of the model.
        seed: of everything random.
        command: that repeats this, for the card.
        progress: called with the number of passes; what it returns is called after each.

    Returns:
        The figures: pairs, agreement on held-out pairs, mean completion times in replay, of the
        jobs that are held out.

    Raises:
        TooFewChoices: too few jobs were passed over.
        SimError: there is no such policy or cluster.
    """
    cluster = load_cluster(cluster_name)
    policy = _PLAIN if teacher is None else find_policy(teacher)
    parameters, taught = WarmstartParameters(seed=seed), None
    held_out_s = _held_out_from_s(trace)
    if teacher is None:
        jobs = jobs_of(trace, cluster, policy)
        pairs = preferences(jobs, recorded_starts_s(trace), parameters.most_pairs, seed)
    else:
        lesson = lesson_of(policy, seed, held_out_s)
        taught = run_policy(trace, cluster, lesson, seed)
        pairs = lesson.found[0].preferences(parameters.most_pairs)
    bar = progress(parameters.epochs)
    net, report = imitate(pairs, f"{trace.source}, {len(trace)} jobs", parameters, bar)
    name = teacher or REAL
    card: dict[str, object] = {"teacher": name, "command": command}
    path = write_order(net, pairs, parameters, report, folder, card)
    found: dict[str, object] = {
        "model": str(path),
        "teacher": name,
        "pairs": report.pair_count,
        "agreement_frac": report.agreement_frac,
    }
    if taught is not None:
        student = imitation_of(policy, load_onnx_order(path, lambda: 0.0))
        imitated = run_policy(trace, cluster, student, seed)
        found |= compare(taught, imitated, held_out_s).figures()
    return found


def _held_out_from_s(trace: Trace) -> float:
    """Return from which submission on jobs are held out."""
    first_s, last_s = float(trace.submit_s[0]), float(trace.submit_s[-1])
    return last_s - HELD_OUT_FRAC * (last_s - first_s)
