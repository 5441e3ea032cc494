"""What the journal keeps of a policy in shadow: its choice beside the active one, for each job."""

from dataclasses import dataclass

from roost_engine.domain.model import JobId, NodeShare


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Where and when a job was placed.

    Attributes:
        at_s: engine time.
        shares: the GPUs.
        tier: 0 one node, 1 one rack, 2 across racks.
        expected_end_s: engine time at which the job is expected to end there; None: nothing is
            known of jobs like it.
    """

    at_s: float
    shares: tuple[NodeShare, ...]
    tier: int
    expected_end_s: float | None = None

    @property
    def gpus(self) -> frozenset[tuple[str, int]]:
        """Every GPU, as (node, index)."""
        return frozenset((share.node, gpu) for share in self.shares for gpu in share.gpu_indices)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowChoice:
    """The choices of both policies for a job, when the active one placed it.

    Attributes:
        at_s: engine time.
        slot, policy: of the shadow.
        active: what was done.
        shadow: what the shadow would have done by then; None: it lets the job wait.
        reason: why the job would wait; "" where it would not.
    """

    at_s: float
    job_id: JobId
    slot: str
    policy: str
    active: Choice
    shadow: Choice | None
    reason: str = ""

    @property
    def differs(self) -> bool:
        """Whether the shadow would not have placed the job on these GPUs by then."""
        return self.shadow is None or self.shadow.gpus != self.active.gpus

    @property
    def expected_gain_s(self) -> float | None:
        """Expected end, shadow less active; None: one of them is not known."""
        shadow, active = self.shadow, self.active
        if shadow is None or shadow.expected_end_s is None or active.expected_end_s is None:
            return None
        return shadow.expected_end_s - active.expected_end_s
