"""The queue at one moment, as plain data that can be sent to another process."""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.config import Passing
from roost_engine.domain.model import JobId
from roost_engine.forecast.run_time_table import RunTimeTable
from roost_engine.policies.protocols import SortKey

Held: TypeAlias = tuple[tuple[int, int], ...]  # (node index, GPUs) of each node
Uses: TypeAlias = tuple[tuple[int, float], ...]  # (number of a quota, amount) of each quota


class Part(NamedTuple):
    """A shape that a job accepts: on so many nodes so many GPUs each.

    Attributes:
        node_count: of the job.
        gpu_count: on each of them.
        nodes: that it could use if they were idle.
    """

    node_count: int
    gpu_count: int
    nodes: NodeSet


@dataclass(frozen=True, slots=True)
class Wish:
    """What jobs of one demand ask for.

    Attributes:
        tier: of their partition, negated: the lowest is served first.
        parts: the preferred one first; none: no node could ever hold them.
        uses: what one of them takes of Slurm's limits while it runs.
        may_displace: running jobs may be stopped for them.
    """

    tier: int
    parts: tuple[Part, ...]
    uses: Uses = ()
    may_displace: bool = False


@dataclass(frozen=True, slots=True)
class Displacing:
    """How waiting jobs displace running ones: those of a higher value, the highest first.

    Attributes:
        value_part: which part of the order's keys is the value.
        grows: whether the value of a running job grows by its GPU count each second.
        lease_s: how long a job that started is not stopped.
    """

    value_part: int
    grows: bool
    lease_s: float


class Stoppable(NamedTuple):
    """What is known of a running job that may be stopped.

    Attributes:
        from_s: engine time from which it may be.
        key: by which the order would sort it now.
        wish: index of what it asks for.
        limit_s: its time limit; inf: none.
    """

    from_s: float
    key: SortKey
    wish: int
    limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A job that waits.

    Attributes:
        wish: index of what it asks for.
        key: by which the order sorts it; the lowest is served first.
        since_s: engine time from which it could have been placed.
        not_before_s: engine time before which it is not placed.
        limit_s: its time limit; inf: none.
        kind, user: jobs of the same number are alike.
        is_stoppable: once it runs it may be stopped for others.
    """

    job_id: JobId
    wish: int
    key: SortKey
    since_s: float
    not_before_s: float
    limit_s: float
    kind: int
    user: int
    is_stoppable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job that holds GPUs, or is about to.

    Attributes:
        held: its GPUs.
        limit_end_s: engine time by which Slurm ends it; inf: unknown.
        speed_frac: of full speed, above 0.
        kind, user: jobs of the same number are alike.
        uses: what it gives back to Slurm's limits when it ends.
        stoppable: None: it is never stopped for others.
    """

    job_id: JobId
    held: Held
    limit_end_s: float
    speed_frac: float
    kind: int
    user: int
    uses: Uses = ()
    stoppable: Stoppable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastArrival:
    """A job that came in the recent past; others like it will come.

    Attributes:
        at_s: engine time at which it came.
        wish: index of what it asked for.
        key: by which the order would sort it now if it had come then.
        time_parts: which parts of the key grow with the time at which a job comes.
        limit_s: its time limit; inf: none.
        run_s: how long it ran; None: it has not ended, or never ran.
        row: of the table, with what was expected of it; counts only without a `run_s`.
        is_stoppable: once it runs it may be stopped for others.
    """

    at_s: float
    wish: int
    key: SortKey
    time_parts: tuple[int, ...]
    limit_s: float
    run_s: float | None
    row: int
    is_stoppable: bool = False

    def key_at(self, at_s: float) -> SortKey:
        """Return the key of such a job that comes at another time."""
        key, by_s = self.key, at_s - self.at_s
        for part in self.time_parts:
            value = key[part]
            assert not isinstance(value, str)
            key = (*key[:part], value + by_s, *key[part + 1 :])
        return key


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The queue at one moment.

    Attributes:
        at_s: engine time.
        free: GPUs that a job could have, by node index.
        quotas: what Slurm's limits leave now, by number of the quota.
        displacing: None: no job is stopped for others.
        patience_s: see EngineConfig.
        passing: see EngineConfig.
        wishes: what waiting jobs and past arrivals ask for.
        waiting: the jobs that wait; their run times are `waiting_times`, in the same order.
        running: the jobs that run; their run times are `running_times`.
        arrivals: the jobs that came since `arrivals_since_s`, in order of time; what was expected
            of those without a run time is in `arrival_times`.
    """

    at_s: float
    free: tuple[int, ...]
    patience_s: float
    passing: Passing
    wishes: tuple[Wish, ...]
    waiting: tuple[WaitingJob, ...]
    waiting_times: RunTimeTable
    running: tuple[RunningJob, ...]
    running_times: RunTimeTable
    arrivals: tuple[PastArrival, ...]
    arrivals_since_s: float
    arrival_times: RunTimeTable
    quotas: tuple[float, ...] = ()
    displacing: Displacing | None = None
