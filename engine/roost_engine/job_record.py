"""What the engine remembers of each job: two types, for jobs under Roost and for all others."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import inf
from typing import Self, TypeAlias

from roost_engine.domain.actions import Decision, Exclusions
from roost_engine.domain.events import EarlierRuns, WaitSoFar
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobId, JobSpec, NodeShare, Placement, Shape
from roost_engine.domain.promise import Guess, Promise
from roost_engine.domain.tier import Tier
from roost_engine.placement.candidates import Candidates

_SENTENCE_LIMIT = 1024  # shapes whose sentence is cached
_EARLIER_PINS = 4  # a pin that is older was replaced in Slurm long ago

Pin: TypeAlias = tuple[Placement, Lazy[Decision] | None]


class JobState(StrEnum):
    """The state of a job, as far as the engine knows."""

    WAITING = "waiting"
    CLEARING = "clearing"  # other jobs are being stopped to free GPUs for it
    PLACING = "placing"  # Slurm was asked to start it
    RUNNING = "running"
    STOPPING = "stopping"  # runs until Slurm has stopped it
    RELEASED = "let_go"  # to plain Slurm; journals have this word
    ENDED = "ended"


WAITS = (JobState.WAITING, JobState.CLEARING, JobState.PLACING)  # a job in them has not started


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingPin:
    """The GPUs for which a job waits in Slurm: see actions.PinStanding.

    Attributes:
        start_s: engine time by which the GPUs are free, if their holders keep their time limits.
        freed_count: how often nodes had gained capacity when it was chosen (Cluster.freed_count).
        awaited: the jobs that have to end first.
        give_up_s: engine time at which a pin for which Slurm preempts is given up; inf for others.
    """

    placement: Placement
    decision: Lazy[Decision]
    start_s: float
    freed_count: int
    awaited: tuple[JobId, ...] = ()
    give_up_s: float = inf

    @property
    def is_preempting(self) -> bool:
        """Whether Slurm is to stop the jobs that hold the GPUs."""
        return self.give_up_s < inf


@dataclass(slots=True, kw_only=True)
class ObservedJob:
    """A job that holds resources and is not under Roost: Slurm started it on its own.

    Attributes:
        shares: what Slurm allocated.
        preempt_class, spared_until_s: see events.JobStarted.
        reason: why it was withdrawn from Roost, for a human; "" where it never was under Roost.
        started_s: engine time of its start, or at which it was first observed.
    """

    job_id: JobId
    state: JobState = JobState.RUNNING
    shares: tuple[NodeShare, ...] = ()
    preempt_class: str = ""
    spared_until_s: float = 0.0
    reason: str = ""
    started_s: float
    ended_s: float | None = None

    @property
    def under_roost(self) -> None:
        """See JobRecord.under_roost."""
        return None

    def run_s(self, at_s: float) -> float:
        """Return the seconds that it has held GPUs by then."""
        return at_s - self.started_s


@dataclass(slots=True)  # not kw_only: made once a job, and names double what that costs
class JobRecord:
    """What the engine knows of a job under Roost. Read-only for everything but the engine.

    Attributes:
        spec: the request.
        queued_s: engine time at which the present wait began: it could have been placed from then.
        reason: why it is in this state, for a human.
        until_s: when a waiting job is decided at the latest, if that is known.
        declined_s: by tier, node and rack: engine time from which, in the present wait, it has
            declined GPUs farther apart than that; None: it has not.
        was_deferred: whether the gate has let it wait in the present wait, whatever it was offered.
        hand_over_at_s: when it is released to plain Slurm if it has not got the only GPU indices
            that it can have; None: it can have any.
        last_try: the candidates, or the lack of any, of the last try.
        placement: what was chosen, also in shadow mode.
        decision: how it was chosen.
        standing: the busy GPUs for which a waiting job waits in Slurm; None: it waits for Roost.
        earlier_pins: chosen earlier in this wait, the newest last: Slurm starts the job there if
            its GPUs come free before the update that replaces the pin.
        shares: what Slurm allocated.
        preempt_class, spared_until_s: see events.JobStarted.
        started_s: of the present run.
        earlier_run_s: seconds it ran before it was stopped, all runs together.
        earlier_run_s_by_tier: the same by tier, without runs that Slurm started on its own.
        stop_count: how often it was stopped.
        work_s: seconds that its progress would have taken at ideal speed, by SpeedSeen.
        speed_frac: its speed since `speed_since_s`; None: not reported.
        nvlink_frac, pcie_frac, nic_frac: how busy its links have been in this run, by LinksSeen;
            None: not reported.
        safe_until_s: engine time before which it is not asked to stop, or not asked again.
        limited_since_s: engine time from which one of Slurm's limits has kept it waiting; None:
            none does.
        awaited: running jobs that must stop before it can be placed.
        sort_key: by which it was last put into the queue; (): it never was.
        guess: by when it has ended, if that is predicted; None: by its time limit, if it has one.
        promise: by when it starts, if nodes were reserved for it in its present wait.
    """

    spec: JobSpec
    state: JobState
    queued_s: float
    reason: str = ""
    until_s: float | None = None
    declined_s: tuple[float | None, float | None] = (None, None)
    was_deferred: bool = False
    last_try: Candidates | None = None
    placement: Placement | None = None
    decision: Lazy[Decision] | None = None
    standing: StandingPin | None = None
    earlier_pins: tuple[Pin, ...] = ()
    shares: tuple[NodeShare, ...] = ()
    preempt_class: str = ""
    spared_until_s: float = 0.0
    refusal_count: int = 0
    not_before_s: float = 0.0
    start_deadline_s: float = 0.0
    hand_over_at_s: float | None = None
    limited_since_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    earlier_run_s: float = 0.0
    earlier_run_s_by_tier: tuple[float, float, float] = (0.0, 0.0, 0.0)
    stop_count: int = 0
    work_s: float = 0.0
    speed_frac: float | None = None
    speed_since_s: float = 0.0
    nvlink_frac: float | None = None
    pcie_frac: float | None = None
    nic_frac: float | None = None
    safe_until_s: float = inf
    awaited: tuple[JobId, ...] = ()
    sort_key: tuple[int | float | str, ...] = ()
    guess: Guess | None = None
    promise: Promise | None = None

    @property
    def job_id(self) -> JobId:
        """The job's id."""
        return self.spec.job_id

    @property
    def under_roost(self) -> Self:
        """The job, of which Roost decides; None of an ObservedJob."""
        return self

    @property
    def exclusions(self) -> Exclusions:
        """Why the last try ruled nodes out."""
        return () if self.last_try is None else self.last_try.exclusions

    @property
    def is_binding(self) -> bool:
        """Whether Slurm must start the job on its placement: not in shadow and advise mode."""
        return self.spec.binding

    @property
    def is_on_gpus(self) -> bool:
        """Whether it runs, be it for a short time only."""
        return self.state in (JobState.RUNNING, JobState.STOPPING)

    @property
    def pins(self) -> tuple[Pin, ...]:
        """Where Slurm may start a job that is placed or waits, the newest choice last."""
        chosen = list(self.earlier_pins)
        if self.standing is not None:
            chosen.append((self.standing.placement, self.standing.decision))
        if self.placement is not None:
            chosen.append((self.placement, self.decision))
        return tuple(chosen)

    def replace_pins(self, standing: StandingPin | None = None) -> None:
        """Replace placement and standing pin of a waiting job; Slurm may start it there still."""
        self.earlier_pins = self.pins[-_EARLIER_PINS:]
        self.placement, self.standing = None, standing

    def drop_standing(self) -> None:
        """Drop the standing pin of a job; Slurm may start it there still."""
        if self.standing is not None:
            pin = self.standing.placement, self.standing.decision
            self.earlier_pins = (*self.earlier_pins, pin)[-_EARLIER_PINS:]
            self.standing = None

    def pin_met_by(self, shares: Iterable[NodeShare]) -> Pin | None:
        """Return the newest of its pins that an allocation meets."""
        held = tuple(shares)
        return next((pin for pin in reversed(self.pins) if pin[0].is_met_by(held)), None)

    @property
    def tiers(self) -> tuple[Tier, Tier]:
        """The tier of a running job, and the closest one that its request allows.

        The racks are unknown for a job that another engine placed: on several nodes it counts as
        in one rack.
        """
        fits_a_node = any(shape.node_count == 1 for shape in self.spec.shapes)
        closest = Tier.NODE if fits_a_node else Tier.RACK
        if self.placement is not None:
            return self.placement.tier, closest
        return Tier.RACK if len(self.shares) > 1 else Tier.NODE, closest

    def run_s(self, at_s: float) -> float:
        """Return the seconds it has held GPUs by then, all runs together."""
        return self.earlier_run_s + (at_s - self.started_s if self.started_s is not None else 0.0)

    def run_s_by_tier(self, at_s: float) -> tuple[float, float, float]:
        """Return the seconds it has held GPUs by then, by the tier of its placement."""
        found = self.earlier_run_s_by_tier
        if self.started_s is None:
            return found
        present, ran_s = self.tiers[0], at_s - self.started_s
        node_s, rack_s, across_s = (
            earlier_s + ran_s * (tier == present)
            for tier, earlier_s in zip(Tier, found, strict=True)
        )
        return node_s, rack_s, across_s

    def attained_gpu_s(self, at_s: float) -> float:
        """Return its GPU-seconds by then: the attained service of least-attained-service orders."""
        # Asked for every running job at every event: few calls.
        shape, run_s = self.spec.shapes[0], self.earlier_run_s
        if self.started_s is not None:
            run_s += at_s - self.started_s
        return run_s * (shape.node_count * shape.gpus_per_node)

    def efficiency(self, at_s: float) -> float:
        """Return the ideal time of its work over the time it took; 0 for a job that never ran.

        That is the work-weighted harmonic mean of its speeds, for which its length need not be
        known (Dally's S, with the total number of iterations cancelled).
        """
        run_s = self.run_s(at_s)
        if run_s <= 0:
            return 0.0
        return self._work_s(at_s) / run_s

    @property
    def indices_in_words(self) -> str:
        """Its fixed indices, and why it can have no others, for a human."""
        indices = ",".join(map(str, self.spec.fixed_indices))
        return f"{indices} of a node, the only ones that this Slurm still gives it,"

    @property
    def wait(self) -> WaitSoFar:
        """Its present wait, for an engine that continues it; of a running job, its last wait."""
        pauses = self.state is JobState.WAITING and self.until_s == self.not_before_s
        return WaitSoFar(
            since_s=self.queued_s,
            declined_s=self.declined_s,
            refusal_count=self.refusal_count,
            not_before_s=self.not_before_s,
            pause_reason=self.reason if pauses else "",
            hand_over_at_s=self.hand_over_at_s,
            limited_since_s=self.limited_since_s,
            runs=self._earlier_runs,
            precedence=self.spec.precedence,
            overtakes=self.spec.overtakes,
        )

    @property
    def _earlier_runs(self) -> EarlierRuns | None:
        if not self.stop_count:
            return None
        return EarlierRuns(
            run_s=self.earlier_run_s,
            run_s_by_tier=self.earlier_run_s_by_tier,
            stop_count=self.stop_count,
            work_s=self.work_s,
        )

    def continue_wait(self, wait: WaitSoFar, at_s: float) -> None:
        """Continue a wait that began before this engine."""
        self.queued_s = min(wait.since_s, max(at_s, self.spec.eligible_s))
        self.declined_s, self.refusal_count = wait.declined_s, wait.refusal_count
        self.was_deferred = self.declined_s != (None, None)
        self.not_before_s, self.hand_over_at_s = wait.not_before_s, wait.hand_over_at_s
        self.limited_since_s = wait.limited_since_s
        self.continue_runs(wait.runs)

    def continue_runs(self, runs: EarlierRuns | None) -> None:
        """Add the runs that an engine before this one knew."""
        if runs is not None:
            self.earlier_run_s, self.earlier_run_s_by_tier = runs.run_s, runs.run_s_by_tier
            self.stop_count, self.work_s = runs.stop_count, runs.work_s

    def note_declined(self, tier: Tier, at_s: float) -> None:
        """Note that it has declined GPUs of this tier, in the hope of closer ones."""
        node_s, rack_s = (
            at_s if since_s is None and target < tier else since_s
            for target, since_s in zip((Tier.NODE, Tier.RACK), self.declined_s, strict=True)
        )
        self.declined_s, self.was_deferred = (node_s, rack_s), True

    def remember_runs(self, earlier: "KnownJob", at_s: float) -> None:
        """Carry over its runs from before it came back into the queue."""
        self.earlier_run_s = earlier.run_s(at_s)
        self.stop_count = int(earlier.started_s is not None)
        if isinstance(earlier, JobRecord):
            self.work_s = earlier._work_s(at_s)
            self.earlier_run_s_by_tier = earlier.run_s_by_tier(at_s)
            self.stop_count += earlier.stop_count

    def note_speed(self, speed_frac: float | None, at_s: float) -> None:
        """Change its speed from now on; None: it stands, or its speed is not reported."""
        self.work_s = self._work_s(at_s)
        self.speed_frac, self.speed_since_s = speed_frac, at_s

    def note_links(
        self, nvlink_frac: float | None, pcie_frac: float | None, nic_frac: float | None
    ) -> None:
        """Store how busy the links of a running job have been; ignored while it does not run."""
        if self.started_s is not None:
            self.nvlink_frac, self.pcie_frac, self.nic_frac = nvlink_frac, pcie_frac, nic_frac

    def _work_s(self, at_s: float) -> float:
        return self.work_s + (self.speed_frac or 0.0) * (at_s - self.speed_since_s)


KnownJob: TypeAlias = JobRecord | ObservedJob


def shares_of(placement: Placement) -> tuple[NodeShare, ...]:
    """Return what a job holds once Slurm has started it as planned.

    Each node of a scattered placement gives CPUs and memory in proportion to its GPUs.
    """
    shape = placement.shape
    if not placement.indices_by_node:
        held = (shape.cpus_per_node, shape.memory_per_node_bytes, placement.seat)
        indices = placement.gpu_indices
        return tuple([NodeShare(node, indices, *held) for node in placement.nodes])
    size = shape.gpus_per_node
    return tuple(
        NodeShare(
            node,
            indices,
            -(-len(indices) * shape.cpus_per_node // size),
            -(-len(indices) * shape.memory_per_node_bytes // size),
        )
        for node, indices in placement.by_node()
    )


@lru_cache(_SENTENCE_LIMIT)
def capacity_wanted(shape: Shape) -> str:
    """Say what a job without capacity waits for."""
    gpus = f"{shape.gpus_per_node} GPU{'s' if shape.gpus_per_node > 1 else ''}"
    if shape.node_count == 1:
        return f"waits for {gpus} on one node"
    return f"waits for the same {gpus} on each of {shape.node_count} nodes"
