"""Which jobs of a simulation may share GPUs, what they train, and what their site has measured.

Each job gets a kind of a table of measured pairs at random: families are equally likely, and so are
the kinds of a family. The site has measured some of the families, beside each other, with an error;
the others are unknown to it. Kinds, opt-ins and known families are drawn by the run's seed, each
with a stream of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp

import numpy as np

from roost_engine.domain.model import JobId
from roost_engine.sharing.pairs import PairSpeed
from roost_sim.worlds.sharing.measured_pairs import Kind, MeasuredPairs

_KIND_STREAM, _OPT_IN_STREAM, _SITE_STREAM = 31, 32, 33
_LEAST_SPEED = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingJobs:
    """The jobs of one run.

    Attributes:
        pairs: what jobs do to each other.
        kind_of: the kind of each job.
        opted_in: the jobs that may share.
        known_families: what the site has measured, ascending.
        table: the site's speeds of pairs of known families, by the names of kinds, with an error.
        whole_table: the same, had the site measured all families: for comparisons only.
    """

    pairs: MeasuredPairs
    kind_of: Mapping[JobId, Kind]
    opted_in: frozenset[JobId]
    known_families: tuple[str, ...]
    table: tuple[PairSpeed, ...]
    whole_table: tuple[PairSpeed, ...]

    def memory_bytes(self, job_id: JobId) -> int:
        """Return what a job needs of each GPU."""
        return self.pairs.memory_bytes[self.kind_of[job_id]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingSpec:
    """How jobs share GPUs in a simulation.

    Attributes:
        pairs: the truth.
        digest: of the truth, for results files.
        opt_in_frac: fraction of the jobs that may share, 0 to 1.
        known_frac: fraction of the families that the site has measured, 0 to 1.
        noise: standard deviation of the logarithm of a speed that the site measures.
    """

    pairs: MeasuredPairs = field(repr=False)
    digest: str
    opt_in_frac: float = 0.5
    known_frac: float = 0.5
    noise: float = 0.05

    def build(self, job_ids: Sequence[JobId], seed: int) -> SharingJobs:
        """Draw the jobs of one run. The same arguments give the same jobs."""
        kinds, families = self.pairs.kinds, self.pairs.families
        rng = np.random.default_rng([seed, _KIND_STREAM])
        chosen = rng.integers(len(families), size=len(job_ids))
        spot = rng.random(len(job_ids))
        members = [[kind for kind in kinds if kind.family == family] for family in families]
        kind_of = {
            job_id: members[family][int(at * len(members[family]))]
            for job_id, family, at in zip(job_ids, chosen.tolist(), spot.tolist(), strict=True)
        }
        opting = np.random.default_rng([seed, _OPT_IN_STREAM]).random(len(job_ids))
        site = np.random.default_rng([seed, _SITE_STREAM])
        count = round(self.known_frac * len(families))
        known = tuple(sorted(site.permutation(list(families))[:count].tolist()))
        whole = self._measured(site)
        family_of = {kind.name: kind.family for kind in kinds}
        return SharingJobs(
            pairs=self.pairs,
            kind_of=kind_of,
            opted_in=frozenset(
                job_id
                for job_id, at in zip(job_ids, opting.tolist(), strict=True)
                if at < self.opt_in_frac
            ),
            known_families=known,
            table=tuple(
                pair
                for pair in whole
                if family_of[pair.model] in known and family_of[pair.beside] in known
            ),
            whole_table=whole,
        )

    def _measured(self, site: np.random.Generator) -> tuple[PairSpeed, ...]:
        """Return the speeds of all pairs as the site would measure them, each with an error."""
        errors = site.standard_normal(len(self.pairs.speed)).tolist()
        return tuple(
            PairSpeed(
                kind.name,
                beside.name,
                min(max(speed * exp(self.noise * error), _LEAST_SPEED), 1.0),
                self.noise,
            )
            for ((kind, beside), speed), error in zip(
                sorted(self.pairs.speed.items()), errors, strict=True
            )
        )
