"""Which of two probes that name the same node may report for it. Pure: no clock, no I/O."""

from collections.abc import Set
from dataclasses import dataclass

from roost_engine.domain.model import GpuUuid

# A node whose probe was silent for so long may have been given other GPUs in its entirety.
KNOWN_GPUS_S = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a probe shows for its right to report for a node.

    Attributes:
        has_certificate: mutual TLS showed that it is that node.
        gpu_uuids: of the GPUs that it names; empty without a driver.
        host: the address that it connects from; "" when unknown.
    """

    has_certificate: bool = False
    gpu_uuids: frozenset[GpuUuid] = frozenset()
    host: str = ""

    def names_known_gpu(self, known: Set[GpuUuid]) -> bool:
        """Return whether it names a GPU that is known from this node; others may be new ones."""
        return not self.gpu_uuids.isdisjoint(known)


def may_take_over(
    claim: Claim, holder: Claim, known: Set[GpuUuid], holder_silent_s: float, patience_s: float
) -> bool:
    """Return whether a second probe may report for a node in place of the first.

    It may when its right is better: a certificate beats none, and then a GPU that was reported
    earlier from this node beats GPUs that were not. With the same right or a lesser one the second
    probe has to wait until the first has fallen silent, as after a lost connection.

    Args:
        claim: of the second probe.
        holder: the claim of the first.
        known: the UUIDs of the node's GPUs, as reported earlier.
        holder_silent_s: since the first was last heard of.
        patience_s: for which it may be silent.
    """
    return _right(claim, known) > _right(holder, known) or holder_silent_s > patience_s


def _right(claim: Claim, known: Set[GpuUuid]) -> tuple[bool, bool]:
    return claim.has_certificate, claim.names_known_gpu(known)
