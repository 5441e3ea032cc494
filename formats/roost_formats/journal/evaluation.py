"""What a process is asked that compares two policies on a journal, and its answer.

roostd asks, the simulator answers; both ends use the journal's codec. Page: docs/policies.md.
"""

from dataclasses import dataclass

from roost_engine.engine import EngineConfig
from roost_engine.plugins.plugins import Plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One of the two choices of policies.

    Attributes:
        plugins: the policies, without what they know: the journal says that.
        score: the score policy: "heuristic", or "onnx:" and twelve digits of the model's sha256.
    """

    plugins: Plugins
    score: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationTask:
    """What is asked.

    Attributes:
        journal: the journal's file, or its folder.
        active, candidate: the two choices.
        config: of the engine.
        model_paths: where the models of both are.
        last_s: jobs that came in the last so many seconds of the journal are compared.
        seed: of the bootstrap.
    """

    journal: str
    active: Contender
    candidate: Contender
    config: EngineConfig
    model_paths: tuple[str, ...] = ()
    last_s: float = 7 * 86_400.0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A figure of the candidate over that of the active policy: below 1 the candidate is better.

    Attributes:
        low, high: the ends of the interval that holds the ratio at 95 %.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFigures:
    """The compared jobs under one choice of policies.

    Attributes:
        avg_jct_s, p99_jct_s: of their completion times.
        lost_frac: mean share of its completion time that a job did not use for its work, 0 to 1.
        preemption_count: preemptions of all jobs.
    """

    avg_jct_s: float
    p99_jct_s: float
    lost_frac: float
    preemption_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The two choices on the same jobs, both simulated.

    Attributes:
        job_count: compared jobs: those of the window that ended in the record and in both
            simulations.
        left_out_count: jobs of the window that ended in the record, but not in both simulations.
        window_s: length of the window.
        active, candidate: the figures.
        avg_ratio, p99_ratio: candidate over active, of completion times.
        recorded_avg_jct_s: of the same jobs in the record: how far the simulation is off.
    """

    job_count: int
    left_out_count: int
    window_s: float
    active: PolicyFigures
    candidate: PolicyFigures
    avg_ratio: Ratio
    p99_ratio: Ratio
    recorded_avg_jct_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationFailed:
    """The answer where there is no comparison.

    Attributes:
        reason: why, with what to do.
    """

    reason: str
