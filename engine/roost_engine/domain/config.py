"""The configuration of the engine."""

from dataclasses import dataclass
from enum import StrEnum
from math import inf

# Slurm's backfill counts in steps of bf_resolution, 60 s where the site sets no other: it keeps
# jobs off the nodes of a waiting job that would end up to a step before that job starts.
PIN_MARGIN_S = 60.0
WIDER_AFTER_S = 30.0  # the default of slurm.hand_over_s, by which plain Slurm would get the job
FINAL_PIN_AFTER_S = 10.0  # by then most jobs that fit at all have been placed


class Passing(StrEnum):
    """Which jobs may backfill past a job that does not fit and has waited out its patience."""

    EASY = "easy"  # the jobs that do not delay it, by the time limits of all jobs
    NOBODY = "nobody"  # none


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The configuration of the engine. Page: docs/configuration.md.

    Attributes:
        passing: which jobs may pass the first job in order that does not fit and has waited out
            its patience.
        patience_s: until a job has waited this long, every other job may pass it.
        start_timeout_s: a placed job that Slurm has not started within this time is decided again.
        stop_timeout_s: a plan to stop jobs is dropped when Slurm has not stopped all of its victims
            within this time.
        refusal_backoff_s: pause of a job after its first refusal; it doubles with each refusal.
        refusal_limit: after this many refusals in a row the job is released to plain Slurm.
        hand_over_s: a job is released to plain Slurm after one of Slurm's limits has kept it
            waiting this long, or if it can only have certain GPU indices and has not got them
            within this time.
        wider_after_s: a job that accepts several shapes waits this long at most for the tight ones
            while a wider one has capacity; inf, as in journals of earlier versions: without end.
        gate_longest_s: a job that has waited this long takes what it is offered, whatever the gate
            answers; if the gate would let it wait on, that counts as a fault of the gate.
        window_count: how many jobs of the queue one pass tries; the next pass continues there.
        ended_job_count: how many ended jobs are remembered, so that they can be explained.
        standing_pins: whether a waiting job may be pinned to GPUs that are still busy: the first
            job in order without capacity is, and with it each job for which Slurm preempts.
        standing_pins_are_final: a release of Slurm accepts one pin a job and cannot take it back.
            Then a pinned job stays where it is, and no other one is pinned until it has started.
        standing_pin_if_overtaken: a job is pinned so for lack of capacity only if Slurm has started
            a job that is not under Roost since this one began to wait.
        standing_pin_after_s: how long a job waits before it may be pinned so for lack of capacity;
            `patience_s` where that is shorter. Pins that can move need no wait
            (docs/results/pins.md), final ones FINAL_PIN_AFTER_S.
        agents: into how many parts the cluster is split, each with a queue of its own.
        forwards: whether an agent may give a job without capacity to another one.
        standing_pin_margin_s: a job may pass one that waits by such a pin only if it ends this long
            before the foreseen start: Slurm would keep it off these nodes, and its GPUs would idle.
    """

    passing: Passing = Passing.EASY
    patience_s: float = 600.0
    start_timeout_s: float = 10.0
    stop_timeout_s: float = 60.0
    refusal_backoff_s: float = 2.0
    refusal_limit: int = 6
    hand_over_s: float = 30.0
    wider_after_s: float = inf
    gate_longest_s: float = 30 * 86_400.0
    window_count: int = 1000
    ended_job_count: int = 1000
    standing_pins: bool = False
    standing_pins_are_final: bool = False
    standing_pin_if_overtaken: bool = False
    standing_pin_after_s: float = 0.0
    agents: int = 1
    forwards: bool = True
    standing_pin_margin_s: float = 0.0
