"""The delay timers: one waiting curve for each class and tier, and the timer that it gives.

The timer of a class is the q-quantile of the waits of its jobs that did not get the tier at once.
Waits of zero are counted, to show operators how rare waiting is, but they are not part of the
curve: a job with a worse offer knows that its own wait is not zero. A class with few waits of its
own uses those of all jobs with about as many GPUs; where these are few too, it uses the waits of
all jobs. How soon capacity becomes free depends little on the job that waits for it.
"""

from dataclasses import dataclass, field
from functools import cache
from math import inf

from roost_engine.domain.tier import Tier
from roost_engine.gate.dally import node_timer_leases, rack_timer_leases
from roost_engine.gate.waiting_curve import WaitHistory, WaitingCurve, WaitSample, exponential_prior
from roost_engine.policies.protocols import TimerView
from roost_engine.prediction.speed.job_class import TimerClass

TARGETS = (Tier.NODE, Tier.RACK)  # tiers for which a job may wait
_ENOUGH_WEIGHT = 5.0  # a class with this weight of waits of its own uses them alone
_HOUR_S = 3_600.0  # weights are computed at the last full hour, so that curves can be cached
_DALLY_LEASE_S, _DALLY_HIST_LEASES = 3_600.0, 24.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerConfig:
    """Parameters of the waiting curves and of the timers.

    Attributes:
        quantile_frac: fraction of the waits that are answered within the timer, above 0, below 1.
        half_life_s: a wait that ended this long ago has half the weight of a new one.
        window_count: how many waits of a pool count, the newest ones.
        prior_wait_s: mean of the prior, the waits that are assumed before any is observed.
        prior_count: weight of the prior, in new waits.
    """

    quantile_frac: float = 0.9
    half_life_s: float = 86_400.0
    window_count: int = 100
    prior_wait_s: float = 1_800.0
    prior_count: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.quantile_frac < 1:
            raise ValueError(f"want a quantile between 0 and 1, got {self.quantile_frac:g}")
        for name in ("half_life_s", "window_count", "prior_wait_s", "prior_count"):
            if not 0 < getattr(self, name) < inf:
                raise ValueError(f"want {name} above 0, got {getattr(self, name):g}")


@dataclass(slots=True)
class ClassCounts:
    """Counts of the waits of one class since the beginning; see TimerView."""

    sample_count: int = 0
    waited_count: int = 0
    censored_count: int = 0
    tuned_s: float | None = None


@dataclass(frozen=True, slots=True)
class TimersState:
    """The state of all timers, as plain data.

    Attributes:
        waits: (pool, tier, wait); the oldest wait of each pool comes first.
        counts: (class, counts).
        pins: (class, seconds).
    """

    waits: tuple[tuple[str, int, WaitSample], ...] = ()
    counts: tuple[tuple[str, ClassCounts], ...] = ()
    pins: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class _Digest:
    """The waiting curve of a pool at a full hour, with the weight of the pool's waits."""

    hour_s: float
    weight: float
    curve: WaitingCurve
    quantile_s: float


@dataclass(slots=True)
class _Pool:
    """The waits for one tier of the jobs of a class, of a GPU bucket, or of all jobs."""

    history: WaitHistory
    digest: _Digest | None = None


@dataclass(slots=True)
class Timers:
    """Waiting curves by class and tier.

    Attributes:
        config: parameters of the curves.
        pins: the timers that operators set, in seconds, by name of the class.
    """

    config: TimerConfig = field(default_factory=TimerConfig)
    pins: dict[str, float] = field(default_factory=dict)
    _pools: dict[tuple[str, int], _Pool] = field(default_factory=dict)
    _counts: dict[str, ClassCounts] = field(default_factory=dict)

    def count(self, timers: TimerClass, *, has_waited: bool, is_answered: bool) -> None:
        """Count a wait that ended, also one of zero, which no sample is added for."""
        counts = self._counts.setdefault(str(timers), ClassCounts())
        counts.sample_count += 1
        counts.waited_count += has_waited
        counts.censored_count += has_waited and not is_answered

    def add(self, timers: TimerClass, target: int, wait: WaitSample) -> None:
        """Add a wait for a tier to the class's pool and to the wider pools that contain it."""
        for name in _pool_names(timers):
            pool = self._pool(name, target)
            pool.history.add(wait)
            pool.digest = None
        self._counts.setdefault(str(timers), ClassCounts()).tuned_s = wait.at_s

    def curve(self, timers: TimerClass, target: int, at_s: float) -> WaitingCurve:
        """Return the waiting curve of a class for a tier."""
        return self._digest(timers, target, at_s).curve

    def timer_s(self, timers: TimerClass, target: int, at_s: float) -> float:
        """Return T_M for a node; for a rack T_R: T_M + the quantile of waits for a rack."""
        node_s = self._digest(timers, Tier.NODE, at_s).quantile_s
        if target == Tier.NODE:
            return node_s
        return node_s + self._digest(timers, Tier.RACK, at_s).quantile_s

    def views(self, at_s: float) -> tuple[TimerView, ...]:
        """Return the classes that have a counted wait or a pin, by GPU count and sensitivity."""
        named = dict.fromkeys((*self._counts, *self.pins))
        classes = (timers for name in named if (timers := TimerClass.parse(name)) is not None)
        return tuple(self._view(timers, at_s) for timers in sorted(classes))

    def pinned_s(self, timer: str) -> float | None:
        """See policies.TunableTimers."""
        return self.pins.get(timer)

    def pin(self, timer: str, pinned_s: float | None) -> None:
        """See policies.TunableTimers. Caps on waits hold for pinned timers too."""
        if TimerClass.parse(timer) is None or (pinned_s is not None and not pinned_s >= 0):
            return
        if pinned_s is None:
            self.pins.pop(timer, None)
        else:
            self.pins[timer] = pinned_s

    def state(self) -> TimersState:
        """Return the learned waits, the counts and the pins as plain data."""
        return TimersState(
            waits=tuple(
                (name, target, wait)
                for (name, target), pool in self._pools.items()
                for wait in pool.history.waits()
            ),
            counts=tuple(self._counts.items()),
            pins=tuple(self.pins.items()),
        )

    def restore(self, state: TimersState) -> None:
        """Replace everything learned by a state."""
        self._pools = {}
        for name, target, wait in state.waits:
            self._pool(name, target).history.add(wait)
        self._counts, self.pins = dict(state.counts), dict(state.pins)

    def _view(self, timers: TimerClass, at_s: float) -> TimerView:
        name = str(timers)
        counts = self._counts.get(name, ClassCounts())
        pinned_s = self.pins.get(name)
        leases = {
            target: [
                wait.waited_s / _DALLY_LEASE_S
                for wait in self._pool(name, target).history.waits()
                if wait.is_answered and wait.waited_s >= _DALLY_LEASE_S
            ]
            for target in TARGETS
        }
        waited = counts.waited_count
        return TimerView(
            name=name,
            node_timer_s=self.timer_s(timers, Tier.NODE, at_s) if pinned_s is None else pinned_s,
            rack_timer_s=self.timer_s(timers, Tier.RACK, at_s) if pinned_s is None else pinned_s,
            sample_count=counts.sample_count,
            waited_count=waited,
            censored_frac=counts.censored_count / waited if waited else None,
            tuned_s=counts.tuned_s,
            pinned_s=pinned_s,
            dally_node_timer_s=_DALLY_LEASE_S
            * node_timer_leases(leases[Tier.NODE], _DALLY_HIST_LEASES),
            dally_rack_timer_s=_DALLY_LEASE_S
            * rack_timer_leases(leases[Tier.RACK], _DALLY_HIST_LEASES),
        )

    def _pool(self, name: str, target: int) -> _Pool:
        pool = self._pools.get((name, target))
        if pool is None:
            config = self.config
            pool = _Pool(WaitHistory(config.half_life_s, config.window_count))
            self._pools[name, target] = pool
        return pool

    def _digest(self, timers: TimerClass, target: int, at_s: float) -> _Digest:
        """Return the digest of the narrowest pool with enough weight, else of the widest pool."""
        hour_s = at_s // _HOUR_S * _HOUR_S
        for name in _pool_names(timers):
            digest = self._fresh(self._pool(name, target), hour_s)
            if digest.weight >= _ENOUGH_WEIGHT:
                break
        return digest

    def _fresh(self, pool: _Pool, hour_s: float) -> _Digest:
        if pool.digest is None or pool.digest.hour_s != hour_s:
            prior = exponential_prior(self.config.prior_wait_s, self.config.prior_count)
            curve = pool.history.curve(hour_s, prior)
            quantile_s = curve.quantile_s(self.config.quantile_frac)
            pool.digest = _Digest(hour_s, pool.history.weight(hour_s), curve, quantile_s)
        return pool.digest


@cache
def _pool_names(timers: TimerClass) -> tuple[str, ...]:
    """Return the names of the pools of a class, the narrowest pool first."""
    return str(timers), f"{timers.gpu_bucket} GPUs", "all"
