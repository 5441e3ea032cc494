"""A job of a trace as the driver receives it."""

from roost_engine.domain.model import JobSpec
from roost_engine.domain.value import value


@value(kw_only=True)
class Arrival:
    """A job of a trace: its request and its work.

    Attributes:
        spec: the request, submitted at `spec.submit_s`.
        work_s: how long the job runs at rate 1.
        gpu_count: GPUs that the trace names; the shapes of `spec` hold more where the GPUs do not
            divide evenly among nodes.
        reported_s: when the engine receives the job; None: when it is submitted.
    """

    spec: JobSpec
    work_s: float
    gpu_count: int
    reported_s: float | None = None

    @property
    def at_s(self) -> float:
        """When the engine receives the job."""
        return self.spec.submit_s if self.reported_s is None else self.reported_s
