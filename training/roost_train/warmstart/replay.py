"""Where a warm start's decisions come from, and the replay that compares it with its teacher."""

from dataclasses import dataclass, replace
from math import inf, isfinite

from roost_engine.domain.model import JobId
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.protocols import KeyedOrder, OrderPolicy
from roost_engine.prediction.predictors import Predictors
from roost_engine.queue.model_order import AnyOrderModel
from roost_sim.catalogue.composition import Composition
from roost_sim.clusters.cluster_spec import ClusterSpec
from roost_sim.figures.outcome import Outcome
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.runs.simulation import PARTITION, Run, simulate
from roost_sim.traces.arrival import Arrival
from roost_sim.traces.trace import Trace
from roost_sim.traces.workload import arrivals, job_ids
from roost_train.warmstart.decisions import KeyedTeacher, Lessons, RankingTeacher
from roost_train.warmstart.warmstart import Imitation


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A teacher and its imitation on the same jobs.

    Attributes:
        teacher_avg_jct_s, imitation_avg_jct_s: mean completion times.
    """

    teacher_avg_jct_s: float
    imitation_avg_jct_s: float

    @property
    def ratio(self) -> float:
        """The imitation's mean completion time over the teacher's."""
        return self.imitation_avg_jct_s / self.teacher_avg_jct_s

    def figures(self) -> dict[str, object]:
        """Return the mean completion times and their ratio, by name."""
        return {
            "teacher_avg_jct_s": self.teacher_avg_jct_s,
            "imitation_avg_jct_s": self.imitation_avg_jct_s,
            "ratio": self.ratio,
        }


def jobs_of(trace: Trace, cluster: ClusterSpec, teacher: Composition) -> list[Arrival]:
    """Return the jobs as a policy's simulation gets them."""
    return list(arrivals(trace, teacher.shapes, cluster.largest_node_gpu_count, PARTITION))


def recorded_starts_s(trace: Trace) -> dict[JobId, float]:
    """Return when the jobs of a trace started on the cluster of the trace: the real decisions."""
    times = zip(job_ids(trace), trace.submit_s.tolist(), trace.wait_s.tolist(), strict=True)
    return {job_id: submit_s + wait_s for job_id, submit_s, wait_s in times if isfinite(wait_s)}


def run_policy(trace: Trace, cluster: ClusterSpec, policy: Composition, seed: int) -> Outcome:
    """Simulate a trace under a policy, in the measured world."""
    run = Run(trace=trace, cluster=cluster, policy=policy, seed=seed)
    return simulate(run).outcome


def imitation_of(teacher: Composition, model: AnyOrderModel) -> Imitation:
    """Return the teacher with a model in its order slot."""
    return Imitation(
        name=f"{teacher.name}-imitated",
        order=teacher.order,
        placement=teacher.placement,
        gate=teacher.gate,
        preemption=teacher.preemption,
        model=model,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson(Composition):
    """A policy of the simulator whose rankings are remembered.

    Attributes:
        seed: of the pairs.
        until_s: nothing later is remembered.
        found: receives the lessons of each simulation.
    """

    seed: int
    until_s: float = inf
    found: list[Lessons]

    def build(self, information: PolicyInformation) -> Policies:
        """See Composition."""
        policies = Composition.build(self, information)
        predictors = policies.predictors or Predictors()
        lessons, order = Lessons(predictors, self.seed, self.until_s), policies.order
        self.found.append(lessons)
        observed: OrderPolicy = RankingTeacher(order, lessons)
        if isinstance(order, KeyedOrder):
            observed = KeyedTeacher(order, lessons)
        return replace(policies, order=observed, predictors=predictors)


def lesson_of(teacher: Composition, seed: int, until_s: float = inf) -> Lesson:
    """Return the teacher with an order that remembers."""
    return Lesson(
        name=teacher.name,
        order=teacher.order,
        placement=teacher.placement,
        gate=teacher.gate,
        preemption=teacher.preemption,
        seed=seed,
        until_s=until_s,
        found=[],
    )


def compare(teacher: Outcome, imitation: Outcome, from_s: float = -inf) -> Replay:
    """Compare two outcomes of the same jobs, by those that came at `from_s` or later."""
    return Replay(
        teacher_avg_jct_s=_avg_jct_s(teacher, from_s),
        imitation_avg_jct_s=_avg_jct_s(imitation, from_s),
    )


def _avg_jct_s(outcome: Outcome, from_s: float) -> float:
    jcts_s = [
        job.ended_s - job.submit_s
        for job in outcome.jobs
        if job.ended_s is not None and job.submit_s >= from_s
    ]
    return sum(jcts_s) / max(len(jcts_s), 1)
