"""Which of two probes that name the same node may report for it. Pure: no clock, no I/O."""

from collections.abc import Set
from dataclasses import dataclass

from roost_engine.domain.model import GpuUuid

# While a node's probe was silent for this long, all of its GPUs may have been replaced.
KNOWN_GPUS_S = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The evidence of a probe's right to report for a node.

    Attributes:
        has_certificate: whether mutual TLS showed that the probe is that node.
        gpu_uuids: of the GPUs that the probe names; empty without a driver.
        host: the address that the probe connects from; "" when unknown.
    """

    has_certificate: bool = False
    gpu_uuids: frozenset[GpuUuid] = frozenset()
    host: str = ""

    def names_known_gpu(self, known: Set[GpuUuid]) -> bool:
        """Return whether the probe names at least one GPU that is known from this node."""
        return not self.gpu_uuids.isdisjoint(known)


def may_take_over(
    claim: Claim, holder: Claim, known: Set[GpuUuid], holder_silent_s: float, patience_s: float
) -> bool:
    """Return whether a second probe may report for a node in place of the first.

    It may when its evidence is better: a certificate beats none, and then a GPU that was reported
    earlier from this node beats GPUs that were not. With the same evidence or less the second probe
    must wait until the first has been silent for long enough, as after a lost connection.

    Args:
        claim: of the second probe.
        holder: the claim of the first probe.
        known: the UUIDs of the node's GPUs, as reported earlier.
        holder_silent_s: seconds since the first probe last reported.
        patience_s: seconds for which the first probe may be silent.
    """
    return _evidence(claim, known) > _evidence(holder, known) or holder_silent_s > patience_s


def _evidence(claim: Claim, known: Set[GpuUuid]) -> tuple[bool, bool]:
    return claim.has_certificate, claim.names_known_gpu(known)
