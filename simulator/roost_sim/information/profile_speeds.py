"""The speed table of a simulation's gates: profiles of the models that jobs name.

The daemon reads such a table from a file. A job that names no model gets the typical speeds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from statistics import median

from roost_engine.domain.model import JobId
from roost_engine.prediction.speed.tier_speeds import TierSpeeds
from roost_sim.worlds.speed.tier_efficiency import JobProfile, TierEfficiency

_RESOLUTION = 1 << 32


@dataclass(slots=True)
class ProfileSpeeds:
    """See tier_speeds.SpeedTable.

    Attributes:
        tiers: efficiencies on the cluster.
        profiles: by the model name that jobs give.
    """

    tiers: TierEfficiency
    profiles: Mapping[str, JobProfile]
    _typical: dict[int, TierSpeeds] = field(default_factory=dict)
    _named: dict[tuple[str, int], TierSpeeds] = field(default_factory=dict)

    @classmethod
    def of(cls, tiers: TierEfficiency, profiles: Iterable[JobProfile]) -> "ProfileSpeeds":
        """Make the table of all profiles that jobs have."""
        named = {profile.name: profile for profile in profiles}
        return cls(tiers, dict(sorted(named.items())))

    def speeds(self, model: str, gpu_count: int) -> TierSpeeds | None:
        """See tier_speeds.SpeedTable."""
        known = self._named.get((model, gpu_count))
        if known is None and (profile := self.profiles.get(model)) is not None:
            known = self._named[model, gpu_count] = self._speeds(profile, gpu_count)
        return known

    def typical(self, gpu_count: int) -> TierSpeeds:
        """See tier_speeds.SpeedTable: the median by tier of the profiles."""
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
    """Draw the jobs that name the model they train, and return these names.

    Args:
        profile_of: the profile of each job.
        named_frac: fraction of the jobs that name their model, 0 to 1.
        seed: of the draw; a job that names its model at some fraction does so at any higher one.
    """
    salt = seed.to_bytes(8, "little", signed=True)
    bound = named_frac * _RESOLUTION

    def is_named(job_id: JobId) -> bool:
        digest = blake2b(job_id.encode(), digest_size=4, key=salt).digest()
        return int.from_bytes(digest, "little") < bound

    return {job_id: profile.name for job_id, profile in profile_of.items() if is_named(job_id)}
