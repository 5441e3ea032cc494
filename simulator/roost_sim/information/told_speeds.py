"""What gates know of speeds in a simulation: the profiles of the models that jobs name.

The daemon has the same from a file. A job that names no model is one of the typical ones.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from statistics import median

from roost_engine.domain.model import JobId
from roost_engine.prediction.speed import TierSpeeds
from roost_sim.worlds.tier_efficiency import JobProfile, TierEfficiency

_RESOLUTION = 1 << 32


@dataclass(slots=True)
class ToldSpeeds:
    """See prediction.speed.SpeedTable.

    Attributes:
        tiers: efficiencies on the cluster.
        profiles: by the name that jobs use.
    """

    tiers: TierEfficiency
    profiles: Mapping[str, JobProfile]
    _typical: dict[int, TierSpeeds] = field(default_factory=dict)

    @classmethod
    def of(cls, tiers: TierEfficiency, profiles: Iterable[JobProfile]) -> "ToldSpeeds":
        """Those of all profiles that occur."""
        named = {profile.name: profile for profile in profiles}
        return cls(tiers, dict(sorted(named.items())))

    def speeds(self, model: str, gpu_count: int) -> TierSpeeds | None:
        """See prediction.speed.SpeedTable."""
        profile = self.profiles.get(model)
        return None if profile is None else self._speeds(profile, gpu_count)

    def typical(self, gpu_count: int) -> TierSpeeds:
        """See prediction.speed.SpeedTable: the median by tier of the profiles."""
        known = self._typical.get(gpu_count)
        if known is None:
            each = [self._speeds(profile, gpu_count) for profile in self.profiles.values()]
            known = TierSpeeds(*(median(one.at(tier) for one in each) for tier in range(3)))
            self._typical[gpu_count] = known
        return known

    def _speeds(self, profile: JobProfile, gpu_count: int) -> TierSpeeds:
        return TierSpeeds(*self.tiers.efficiencies(profile, gpu_count))


def named_models(
    profile_of: Mapping[JobId, JobProfile], named_frac: float, seed: int
) -> dict[JobId, str]:
    """The jobs that say what they train, and what they say.

    Args:
        profile_of: what each job is like.
        named_frac: how many say it, 0 to 1.
        seed: decides who; whoever says it at some fraction says it at any higher one.
    """
    salt = seed.to_bytes(8, "little", signed=True)
    bound = named_frac * _RESOLUTION

    def says(job_id: JobId) -> bool:
        digest = blake2b(job_id.encode(), digest_size=4, key=salt).digest()
        return int.from_bytes(digest, "little") < bound

    return {job_id: profile.name for job_id, profile in profile_of.items() if says(job_id)}
