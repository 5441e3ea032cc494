"""Small sweeps for tests: jobs and a cluster that take milliseconds."""

import os
import signal
import time
from dataclasses import replace

from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.presets import preset
from roost_sim.figures.metrics import Span
from roost_sim.runs.simulation import Run
from roost_sim.sweeps.run_curves import Curves
from roost_sim.sweeps.sweep import Case, Done, Failed, Finished, Sweep
from roost_sim.traces.trace import Trace, make_trace


def jobs(count: int = 40) -> Trace:
    """Jobs of 1 to 9 GPUs that crowd a node or two."""
    numbers = range(count)
    return make_trace(
        "made.csv",
        submit_s=[7.0 * number for number in numbers],
        duration_s=[50.0 + 31 * (number % 11) for number in numbers],
        gpu_count=[1 + number % 9 for number in numbers],
    )


def template(trace: Trace | None = None) -> Run:
    """A run of them on the cluster `small`."""
    return Run(
        trace=trace or jobs(),
        cluster=preset("small"),
        policy=find_policy("fifo"),
        span=Span(warm_up_frac=0, cool_down_frac=0),
    )


def sweep(window_jobs: int | None = None) -> Sweep:
    return Sweep(template=template(), window_jobs=window_jobs)


def done(policy: str, seed: int, load: float | None = None, **figures: float | None) -> Done:
    """A finished run with some figures and no curves to speak of."""
    return Done(
        case=Case(policy, seed, load),
        document={
            "policy": policy,
            "seed": seed,
            "regime": "none",
            "mechanism": "lease",
            "load": load,
            **figures,
        },
        curves=Curves(
            jct_s=[1.0, 2.5],
            end_s=3.0,
            queue=[0.0, 1.0],
            heat=["0W"],
            heat_names=[("n0", "n0")],
            tier_counts=(2, 0, 0),
            left_out=[("too large", 1)],
            left_out_digest="one",
        ),
    )


def leaving_out(run: Done, count: int, digest: str | None) -> Done:
    """The run, had it left out so many jobs, these ones."""
    left_out = [("too large", count)]
    return replace(run, curves=replace(run.curves, left_out=left_out, left_out_digest=digest))


class Scripted(Sweep):
    """Does as the policy's name says: works, fails, sleeps, or takes its process down with it."""

    def perform(self, case: Case) -> Finished:
        if case.policy == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if case.policy == "sleeps":
            time.sleep(600.0)
        if case.policy == "leaves":
            os._exit(3)
        return Failed(case, "as told") if case.policy == "fails" else done(case.policy, case.seed)


def csv_of(trace: Trace) -> str:
    """A trace as a file."""
    rows = zip(
        trace.submit_s.tolist(), trace.duration_s.tolist(), trace.gpu_count.tolist(), strict=True
    )
    return "submit_s,duration_s,num_gpus\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows)
