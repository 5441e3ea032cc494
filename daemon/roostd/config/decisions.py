"""The sections about decisions: the engine's numbers, the gate, preemption.

Each turns into the core's own plain dataclass. The defaults of both are the same; a test compares.
"""

from collections.abc import Sequence
from dataclasses import fields
from enum import StrEnum
from math import inf
from typing import Annotated

from pydantic import Field

from roost_engine.engine import EngineConfig, Passing
from roost_engine.gate.dally import DallyConfig
from roost_engine.gate.delay import DelayConfig
from roost_engine.gate.timers import TimerConfig
from roost_engine.preemption.network_preemption import NetworkPreemptionConfig
from roostd.config.values import AbsolutePath, Seconds, Section


class EngineSection(Section):
    """The engine's numbers; the same as roost_engine.domain.config.EngineConfig."""

    passing: Annotated[Passing, Field(strict=False)] = Field(
        default=Passing.EASY,
        description="which jobs may pass the first one that has waited out its patience and does"
        " not fit: easy (jobs that do not delay it, by all time limits) or nobody",
    )
    patience_s: Seconds = Field(
        default=600.0, description="after waiting this long a job has nodes reserved for it"
    )
    start_timeout_s: Seconds = Field(
        default=10.0,
        description="a placed job that Slurm has not started within this time is decided again",
    )
    stop_timeout_s: Seconds = Field(
        default=60.0,
        description="a plan to stop jobs is dropped when Slurm has not stopped one within this"
        " time",
    )
    refusal_backoff_s: Seconds = Field(
        default=2.0, description="pause after the first refusal; doubles with each one"
    )
    refusal_limit: Annotated[int, Field(ge=1)] = Field(
        default=6, description="after this many refusals in a row the job is released to Slurm"
    )
    window_count: Annotated[int, Field(ge=1)] = Field(
        default=1000,
        description="jobs of the queue that one pass tries; the next pass continues there",
    )
    ended_job_count: Annotated[int, Field(ge=0)] = Field(
        default=1000, description="ended jobs that can still be explained"
    )

    def to_core(self) -> EngineConfig:
        """Return the same as plain data for the core."""
        return EngineConfig(**self.model_dump())


class GateKind(StrEnum):
    """Whether jobs wait for better GPUs than are free now."""

    OPEN = "open"  # no job waits
    DELAY = "delay"  # a job waits where the expected gain outweighs the wait
    DALLY = "dally"  # as in the code of Dally's authors


class GateSection(Section):
    """Whether jobs wait for better GPUs than are free now. Page: docs/delay.md."""

    kind: Annotated[GateKind, Field(strict=False)] = Field(
        default=GateKind.OPEN,
        description="which gate; docs/delay.md lists the kinds",
    )
    delay_weight: Annotated[float, Field(ge=0, le=100)] = Field(
        default=1.0, description="weight of a second of waiting against a second of run time saved"
    )
    crowding_weight: Annotated[float, Field(ge=0, le=100)] = Field(
        default=1.0, description="weight of each second by which other waiting jobs start sooner"
    )
    limit_frac: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.15, description="longest wait of a job, as a fraction of its time limit"
    )
    longest_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=86_400.0, description="longest wait of any job"
    )
    idle_frac: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5, description="no job waits while this fraction of the cluster's GPUs is free"
    )
    lease_s: Seconds | None = Field(
        default=None,
        description="a running job is placed again after this time, so a wait gains no more than"
        " that; null: it stays",
    )
    quantile_frac: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.9, description="quantile of the waits for a better tier that becomes the timer"
    )
    half_life_s: Seconds = Field(
        default=86_400.0, description="a wait that ended this long ago counts half"
    )
    window_count: Annotated[int, Field(ge=1)] = Field(
        default=100, description="how many of a class's newest waits count"
    )
    prior_wait_s: Seconds = Field(
        default=1_800.0, description="mean wait that is assumed before any is observed"
    )
    prior_count: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        default=2.0, description="weight of that assumption, as a number of observed waits"
    )
    speeds: AbsolutePath | None = Field(
        default=None, description="CSV file of the speeds of models that users name; null: none"
    )

    def to_core(self) -> DelayConfig | DallyConfig | None:
        """Return the same as plain data for the core."""
        numbers = self.model_dump(exclude={"kind", "speeds"})
        timers = {field.name: numbers.pop(field.name) for field in fields(TimerConfig)}
        match self.kind:
            case GateKind.OPEN:
                return None
            case GateKind.DALLY:
                return DallyConfig()
            case GateKind.DELAY:
                lease_s = inf if self.lease_s is None else self.lease_s
                return DelayConfig(timers=TimerConfig(**timers), **numbers | {"lease_s": lease_s})


class PreemptionSection(Section):
    """Stops running jobs for waiting ones in partitions that allow it. Page: docs/preemption.md."""

    lease_s: Seconds = Field(
        default=3_600.0, description="a job that started is not stopped for this long"
    )
    patience_s: Seconds = Field(
        default=600.0, description="a job has waited this long before others are stopped for it"
    )
    restart_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=120.0, description="what a restart costs a job beside its lost work"
    )
    cooldown_s: Seconds = Field(
        default=7_200.0,
        description="from one request to stop a job to the next request to stop the same job",
    )
    budget_per_hour: Annotated[int, Field(ge=0)] = Field(
        default=2, description="the most jobs of one partition that are stopped in an hour"
    )
    moves: bool = Field(
        default=False, description="jobs are also stopped to migrate to GPUs closer together"
    )
    qos: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="jobs of these QoS may be stopped though they name no checkpoint interval",
    )

    def to_core(self, partitions: Sequence[str]) -> NetworkPreemptionConfig | None:
        """Return the same as plain data for the core; None where no partition allows preemption."""
        if not partitions:
            return None
        numbers = self.model_dump(exclude={"qos"})
        return NetworkPreemptionConfig(partitions=tuple(sorted(partitions)), **numbers)
