"""The sections that say how is decided: the engine's numbers, the gate, preemption.

Each turns into plain data of the core, whose defaults are the same; a test compares.
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
    """The decision core's numbers; the same as engine.EngineConfig."""

    passing: Annotated[Passing, Field(strict=False)] = Field(
        default=Passing.EASY,
        description="who may pass the first job that has no room and no patience any more: easy"
        " (those that do not delay it, by the time limits of all) or nobody",
    )
    patience_s: Seconds = Field(
        default=600.0, description="after waiting this long a job has nodes reserved for it"
    )
    start_timeout_s: Seconds = Field(
        default=10.0,
        description="a placed job that Slurm has not started by then is decided anew",
    )
    stop_timeout_s: Seconds = Field(
        default=60.0,
        description="a job that makes room is given up on when Slurm has not stopped it by then",
    )
    refusal_backoff_s: Seconds = Field(
        default=2.0, description="pause after the first refusal; doubles with each one"
    )
    refusal_limit: Annotated[int, Field(ge=1)] = Field(
        default=6, description="after so many refusals in a row the job goes to plain Slurm"
    )
    window_count: Annotated[int, Field(ge=1)] = Field(
        default=1000,
        description="jobs of the queue that one pass tries; the next goes on from there",
    )
    ended_job_count: Annotated[int, Field(ge=0)] = Field(
        default=1000, description="ended jobs that can still be explained"
    )

    def to_core(self) -> EngineConfig:
        """The same as plain data for the core."""
        return EngineConfig(**self.model_dump())


class GateKind(StrEnum):
    """Whether jobs wait for better GPUs than they could have at once."""

    OPEN = "open"  # they do not
    DELAY = "delay"  # where that is expected to pay
    DALLY = "dally"  # as the authors of Dally coded it


class GateSection(Section):
    """The delay gate's numbers; page for people: docs/delay.md."""

    kind: Annotated[GateKind, Field(strict=False)] = Field(
        default=GateKind.OPEN,
        description="which gate; docs/delay.md lists the kinds",
    )
    delay_weight: Annotated[float, Field(ge=0, le=100)] = Field(
        default=1.0, description="what a second of waiting counts against one of run time saved"
    )
    crowding_weight: Annotated[float, Field(ge=0, le=100)] = Field(
        default=1.0, description="what a second counts by which other waiting jobs start sooner"
    )
    limit_frac: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.15, description="of its time limit, the most that a job is made to wait"
    )
    longest_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=86_400.0, description="the most that any job is made to wait"
    )
    idle_frac: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5, description="nobody waits while so much of the cluster's GPUs is free"
    )
    lease_s: Seconds | None = Field(
        default=None,
        description="a running job is placed anew after so long, so that a wait gains no more;"
        " null: it stays",
    )
    quantile_frac: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.9, description="how many of the waits for a better place a timer lets come true"
    )
    half_life_s: Seconds = Field(
        default=86_400.0, description="a wait that ended so long ago counts half"
    )
    window_count: Annotated[int, Field(ge=1)] = Field(
        default=100, description="the newest waits of a class that count"
    )
    prior_wait_s: Seconds = Field(
        default=1_800.0, description="mean wait that is assumed before any is known"
    )
    prior_count: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        default=2.0, description="how many known waits outweigh that"
    )
    speeds: AbsolutePath | None = Field(
        default=None, description="CSV file of the speeds of models that users name; null: none"
    )

    def to_core(self) -> DelayConfig | DallyConfig | None:
        """The same as plain data for the core."""
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
    """Stopping running jobs for waiting ones, where a partition allows it."""

    lease_s: Seconds = Field(default=3_600.0, description="a started job is left alone for so long")
    patience_s: Seconds = Field(
        default=600.0, description="a job has waited so long before others are stopped for it"
    )
    restart_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        default=120.0, description="what a restart costs a job beside the work it lost"
    )
    cooldown_s: Seconds = Field(
        default=7_200.0, description="from one request to stop a job to the next"
    )
    budget_per_hour: Annotated[int, Field(ge=0)] = Field(
        default=2, description="jobs of one partition that are stopped in an hour, at most"
    )
    moves: bool = Field(
        default=False, description="jobs are also stopped to run on closer together"
    )
    qos: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="jobs of these QoS may be stopped though they name no checkpoint interval",
    )

    def to_core(self, partitions: Sequence[str]) -> NetworkPreemptionConfig | None:
        """The same as plain data for the core; None where no partition allows it."""
        if not partitions:
            return None
        numbers = self.model_dump(exclude={"qos"})
        return NetworkPreemptionConfig(partitions=tuple(sorted(partitions)), **numbers)
