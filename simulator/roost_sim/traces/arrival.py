"""A job of a trace, as the driver takes it in."""

from dataclasses import dataclass

from roost_engine.domain.model import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A job of a trace.

    Attributes:
        spec: the request, submitted at `spec.submit_s`.
        work_s: how long it runs at rate 1.
        gpu_count: what the trace asks for; its shapes may hold more where that does not divide.
        told_s: when the engine hears of it; None: when it is submitted.
    """

    spec: JobSpec
    work_s: float
    gpu_count: int
    told_s: float | None = None

    @property
    def at_s(self) -> float:
        """When the engine hears of it."""
        return self.spec.submit_s if self.told_s is None else self.told_s
