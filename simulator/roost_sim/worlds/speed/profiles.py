"""Speed profiles: the communication that a training job cannot hide, by where its GPUs are.

The unit is the job's own compute: overhead 0.5 means that a step takes half as long again as on
one GPU alone. Three terms describe what was measured (docs/simulator/speed.md):

    one node:      local · log2(GPUs)
    several nodes: spread + spread_log · log2(GPUs) [+ pair_log · log2(GPUs of the fullest node),
                   on exactly two nodes]
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import log2
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from roost_sim.errors import ProfileError
from roost_sim.traces.trace import UNKNOWN, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One model at one batch size on one kind of GPU.

    Attributes:
        name: family/batch@gpu.
        family: of the model; families are excluded as a whole.
        source: of the measurement.
        compute_s: one step on one GPU.
        local: overhead per doubling of the GPUs inside one node.
        spread: overhead of leaving the node.
        spread_log: overhead per doubling of the GPUs on several nodes.
        pair_log: overhead per doubling of the GPUs of the fullest node where there are two nodes:
            both nodes then push their whole gradient through one connection each.
    """

    name: str
    family: str
    source: str
    compute_s: float
    local: float
    spread: float
    spread_log: float
    pair_log: float = 0.0

    def local_overhead(self, gpu_count: int) -> float:
        """Return exposed communication over compute on one node."""
        return max(self.local * log2(gpu_count), 0.0)

    def spread_overhead(self, gpu_count: int, node_count: int, fullest_gpu_count: int) -> float:
        """Return exposed communication over compute on several nodes of one rack.

        Never below the overhead on one node: some measurements are, because one node's CPUs had to
        feed all GPUs, which is no property of the network.

        Args:
            gpu_count: GPUs of the job, 2 or more.
            node_count: nodes of the job, 2 or more.
            fullest_gpu_count: the most GPUs that the job has on one node.
        """
        found = self.spread + self.spread_log * log2(gpu_count)
        if node_count == 2:
            found += self.pair_log * log2(fullest_gpu_count)
        return max(found, self.local_overhead(gpu_count))


class HasFamily(Protocol):
    """A profile or model with a family."""

    @property
    def family(self) -> str:
        """Family of the model."""


_Chosen = TypeVar("_Chosen", bound=HasFamily)


def select_profiles(
    profiles: Sequence[_Chosen], exclude_families: Collection[str] = ()
) -> tuple[_Chosen, ...]:
    """Return the profiles without some families.

    Raises:
        ProfileError: a family does not exist, or no profile is left.
    """
    families = sorted({profile.family for profile in profiles})
    for family in exclude_families:
        if family not in families:
            raise ProfileError(f"no model {family!r}; there are {', '.join(families)}")
    left = tuple(profile for profile in profiles if profile.family not in exclude_families)
    if not left:
        raise ProfileError("every model is excluded; leave at least one")
    return left


def assign_profiles(trace: Trace, profiles: Sequence[HasFamily], seed: int) -> NDArray[np.int32]:
    """Give each job of a trace a profile: of its own model if there is one, else a random one.

    Public traces do not name the model of a job. Families are equally likely, and so are the
    variants of a family, so that a family measured at many batch sizes is not drawn more often.

    Args:
        trace: the jobs.
        profiles: to draw from; not empty.
        seed: of the draw, which is independent of all other draws of a simulation.

    Returns:
        int32 [job], indices into profiles.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, len(trace)]))
    families = sorted({profile.family for profile in profiles})
    variants = [
        np.array([i for i, profile in enumerate(profiles) if profile.family == family])
        for family in families
    ]
    number_of = {family: number for number, family in enumerate(families)}
    family = rng.integers(len(families), size=len(trace))
    named = np.array([number_of.get(name.lower(), UNKNOWN) for name in trace.model_names] + [-1])
    own = named[trace.model_id]  # UNKNOWN is -1, the entry at the end
    family = np.where(own == UNKNOWN, family, own)
    spot = rng.random(len(trace))
    chosen = np.empty(len(trace), dtype=np.int32)
    for number, indices in enumerate(variants):
        members = np.flatnonzero(family == number)
        chosen[members] = indices[(spot[members] * len(indices)).astype(np.int64)]
    return chosen
