"""Options of every command that simulates: trace, cluster, world, and the engine's numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TypeVar

import click

from roost_engine.domain.config import FINAL_PIN_AFTER_S
from roost_engine.engine import EngineConfig
from roost_sim.catalogue.composition import Composition
from roost_sim.figures.metrics import Span
from roost_sim.options.inputs import measured_span, read_workload, workload_options
from roost_sim.options.numbers import FiniteRange
from roost_sim.options.world import world_options
from roost_sim.runs.mechanism import Mechanism
from roost_sim.runs.simulation import Run
from roost_sim.worlds.world_spec import WorldSpec

_Result = TypeVar("_Result")

_ENGINE_OPTIONS = (
    click.option(
        "--start-delay-s",
        type=FiniteRange(0, 10, max_open=True),
        default=0.0,
        show_default=True,
        help="From a decision to the start of the job.",
    ),
    click.option(
        "--patience-s",
        type=FiniteRange(0),
        default=EngineConfig().patience_s,
        show_default=True,
        help="After waiting so long a job has nodes reserved; for gates that are patient.",
    ),
    click.option(
        "--mechanism",
        type=click.Choice([mechanism.value for mechanism in Mechanism]),
        default=Mechanism.LEASE.value,
        show_default=True,
        help="How jobs wait in Slurm: under leases; the next one pinned to busy GPUs, once (before "
        "24.11); or pinned, and moved to a sooner place.",
    ),
    click.option(
        "--pin-after-s",
        type=FiniteRange(0),
        help="After waiting so long a job may be pinned to busy GPUs.  "
        f"[default: {FINAL_PIN_AFTER_S:g} for one-pin, else 0]",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The values of the options, before any file is read."""

    trace_path: Path
    cluster_name: str
    limit: int | None
    strict: bool
    span: Span
    world: WorldSpec
    start_delay_s: float
    patience_s: float
    mechanism: Mechanism = Mechanism.LEASE
    pin_after_s: float | None = None

    def read(self, policy: Composition, load: float | None = None, seed: int = 0) -> Run:
        """Read the trace and the cluster.

        Raises:
            SimError: a file is wrong, or a load is set and all jobs arrive at once.
        """
        trace, cluster = read_workload(
            self.trace_path, self.cluster_name, self.limit, load, self.strict
        )
        return Run(
            trace=trace,
            cluster=cluster,
            policy=policy,
            world=self.world,
            seed=seed,
            start_delay_s=self.start_delay_s,
            span=self.span,
            engine_config=self.mechanism.engine_config(
                EngineConfig(patience_s=self.patience_s), self.pin_after_s
            ),
        )


def run_options(command: Callable[..., _Result]) -> Callable[..., _Result]:
    """Add the options of a run, and pass them to the command as one `options`."""

    @wraps(command)
    def with_options(
        *args: object,
        trace_path: Path,
        cluster_name: str,
        limit: int | None,
        strict: bool,
        warm_up_frac: float,
        cool_down_frac: float,
        world: WorldSpec,
        start_delay_s: float,
        patience_s: float,
        mechanism: str,
        pin_after_s: float | None,
        **others: object,
    ) -> _Result:
        options = RunOptions(
            trace_path=trace_path,
            cluster_name=cluster_name,
            limit=limit,
            strict=strict,
            span=measured_span(warm_up_frac, cool_down_frac),
            world=world,
            start_delay_s=start_delay_s,
            patience_s=patience_s,
            mechanism=Mechanism(mechanism),
            pin_after_s=pin_after_s,
        )
        return command(*args, options=options, **others)

    found: Callable[..., _Result] = with_options
    for option in reversed(_ENGINE_OPTIONS):
        found = option(found)
    return workload_options(world_options(found))
