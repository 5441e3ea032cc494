"""How much of the cluster each user has had lately, and how much the user's waiting jobs will need.

Past service fades by half in a week, as Slurm's usage does by default (PriorityDecayHalfLife). A
running job adds g GPU-seconds a second; so, with d = 2 ** (-t / half-life) after t seconds,

    used(t) = used(0) · d + g · (1 - d) · half-life / ln 2

What a user may have is a part of all, by the shares that Slurm has for its users; where there are
none, all users have equal ones. The parts of the users whose jobs wait or run add up to 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite, log

from roost_engine.domain.model import UNKNOWN_USER, JobId

HALF_LIFE_S = 7 * 86_400.0
_MOST_USERS = 20_000
# Shares are summed as whole numbers: adding and taking away the same ones leaves nothing behind.
_SHARE_STEPS = 1 << 40


@dataclass(slots=True)
class UserSums:
    """What one user has had, and wants.

    Attributes:
        used_gpu_s: faded, as of `at_s`.
        gpu_count: that the user's jobs hold since then.
        waiting_gpu_s: that the user's waiting jobs are expected to need.
        waiting_count: of these jobs.
    """

    at_s: float = 0.0
    used_gpu_s: float = 0.0
    gpu_count: int = 0
    waiting_gpu_s: float = 0.0
    waiting_count: int = 0

    def used_by(self, at_s: float) -> float:
        """Return the faded GPU-seconds as of a time that is not before the last one."""
        kept_frac: float = 2.0 ** (-max(at_s - self.at_s, 0.0) / HALF_LIFE_S)
        held = self.gpu_count * (1.0 - kept_frac) * HALF_LIFE_S / log(2.0)
        return self.used_gpu_s * kept_frac + held

    def hold(self, more: int, at_s: float) -> None:
        """Add GPUs that the user's jobs hold from now on; below 0: they hold fewer."""
        self.used_gpu_s = self.used_by(at_s)
        self.at_s, self.gpu_count = max(at_s, self.at_s), self.gpu_count + more

    def want(self, gpu_s: float, count: int) -> None:
        """Add waiting jobs and their work; below 0: fewer wait."""
        self.waiting_count += count
        # At 0 rounding errors are dropped, so that they do not add up.
        self.waiting_gpu_s = max(self.waiting_gpu_s + gpu_s, 0.0) if self.waiting_count else 0.0

    @property
    def is_active(self) -> bool:
        """Whether a job of the user waits or runs."""
        return self.waiting_count > 0 or self.gpu_count > 0


@dataclass(frozen=True, slots=True)
class UserServiceState:
    """What users have had, as plain data: the user, the faded GPU-seconds and as of when."""

    used: tuple[tuple[int, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class _Wanted:
    user_id: int
    gpu_s: float
    is_over: bool


class UserService:
    """What users have had and want. Jobs without a known user count for the total alone."""

    def __init__(self) -> None:
        self._users: dict[int, UserSums] = {}
        self._all = UserSums()
        self._weights: dict[int, int] = {}
        self._weight_of_others = 1  # of users that are not in it
        self._active_weight = 0
        self._waiting: dict[JobId, _Wanted] = {}
        self._running: dict[JobId, tuple[int, int]] = {}  # user and GPUs

    def wait(self, job_id: JobId, user_id: int, gpu_s: float, slack: float, at_s: float) -> bool:
        """Add a job that waits, and return whether its user is over the user's share with it.

        That is so if what the user has had lately and what all the user's waiting jobs will need is
        more than `slack` times the user's share of what all users have had and want. The answer for
        a job stays while the job waits.

        Args:
            job_id: the job.
            user_id: below 0: unknown, and never over.
            gpu_s: that the job is expected to need; what is no amount is none.
            slack: 1 or more; inf: no user is ever over.
            at_s: engine time.
        """
        known = self._waiting.get(job_id)
        self.leave(job_id)
        gpu_s = gpu_s if isfinite(gpu_s) and gpu_s > 0 else 0.0
        self._want(user_id, gpu_s, 1)
        is_over = known.is_over if known is not None else self.is_over(user_id, slack, at_s)
        self._waiting[job_id] = _Wanted(user_id, gpu_s, is_over)
        return is_over

    def apply_shares(self, shares: Mapping[int, float]) -> None:
        """Use these shares from now on; see events.SharesSeen. Answers that were given stay.

        A user without a share of its own counts with the smallest one above 0: there are jobs of
        such users where Slurm does not enforce associations. A user with a share of 0 is over as
        soon as any other user has jobs.
        """
        self._weights = {
            user_id: round(share * _SHARE_STEPS)
            for user_id, share in shares.items()
            if isfinite(share) and share >= 0
        }
        self._weight_of_others = min((one for one in self._weights.values() if one), default=1)
        if not any(self._weights.values()):
            self._weights = {}
        active = (user_id for user_id, sums in self._users.items() if sums.is_active)
        self._active_weight = sum(map(self._weight, active))

    def leave(self, job_id: JobId) -> None:
        """Remove a job that waits no longer."""
        known = self._waiting.pop(job_id, None)
        if known is not None:
            self._want(known.user_id, -known.gpu_s, -1)

    def hold(self, job_id: JobId, user_id: int, gpu_count: int, at_s: float) -> None:
        """Set the number of GPUs that a job holds from now on."""
        before = self._running.pop(job_id, None)
        if before is not None:
            self._hold(before[0], -before[1], at_s)
        if gpu_count:
            self.leave(job_id)
            self._running[job_id] = user_id, gpu_count
            self._hold(user_id, gpu_count, at_s)

    def is_over(self, user_id: int, slack: float, at_s: float, more_gpu_s: float = 0.0) -> bool:
        """Return whether a user is over the share with so much more to wait for; see `wait`."""
        if slack == inf or user_id <= UNKNOWN_USER:
            return False
        sums = self._users.get(user_id, UserSums())
        own = sums.used_by(at_s) + sums.waiting_gpu_s + more_gpu_s
        whole = self._all.used_by(at_s) + self._all.waiting_gpu_s + more_gpu_s
        weight = self._weight(user_id)
        active_weight = self._active_weight + (0 if sums.is_active else weight)
        return own * active_weight > slack * whole * weight

    def _weight(self, user_id: int) -> int:
        return self._weights.get(user_id, self._weight_of_others)

    def _sums(self, user_id: int) -> UserSums:
        sums = self._users.get(user_id)
        if sums is None:
            if len(self._users) >= _MOST_USERS:
                self._forget_one()
            sums = self._users[user_id] = UserSums()
        return sums

    def _forget_one(self) -> None:
        """Forget the first user without jobs; while all have some, there are as many as jobs."""
        for user_id, sums in self._users.items():
            if not sums.is_active:
                del self._users[user_id]
                return

    def _want(self, user_id: int, gpu_s: float, count: int) -> None:
        self._all.want(gpu_s, count)
        if user_id > UNKNOWN_USER:
            sums = self._sums(user_id)
            was_active = sums.is_active
            sums.want(gpu_s, count)
            self._active_weight += (sums.is_active - was_active) * self._weight(user_id)

    def _hold(self, user_id: int, more: int, at_s: float) -> None:
        self._all.hold(more, at_s)
        if user_id > UNKNOWN_USER:
            sums = self._sums(user_id)
            was_active = sums.is_active
            sums.hold(more, at_s)
            self._active_weight += (sums.is_active - was_active) * self._weight(user_id)

    # -- state -------------------------------------------------------------------------------

    def state(self) -> UserServiceState:
        """Return what users have had, as plain data; what runs and waits is reported again."""
        at_s = max((sums.at_s for sums in self._users.values()), default=0.0)
        used = [(user_id, sums.used_by(at_s), at_s) for user_id, sums in self._users.items()]
        return UserServiceState(tuple(each for each in used if each[1] > 1.0))

    @classmethod
    def of(cls, state: UserServiceState) -> "UserService":
        """Return what knows what was known when `state` was taken, and nothing else."""
        found = cls()
        for user_id, used_gpu_s, at_s in state.used:
            found._users[user_id] = UserSums(at_s=at_s, used_gpu_s=used_gpu_s)
            found._all = UserSums(at_s=at_s, used_gpu_s=found._all.used_gpu_s + used_gpu_s)
        return found
