"""The section about jobs that share GPUs. Page: docs/sharing.md."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from roost_engine.sharing.pairs import PairSpeed, SeparationConfig, SharingConfig
from roostd.config.decisions import PreemptionSection
from roostd.config.values import AbsolutePath, Seconds, Section


class SharingSection(Section):
    """Lets two jobs share a GPU where both opted in; docs/sharing.md."""

    enabled: bool = Field(
        default=False,
        description="whether jobs that opted in may share GPUs; needs second seats in Slurm, and"
        " pairs",
    )
    limit: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.15, description="the most speed that either job of a pair may lose"
    )
    certainty: Annotated[float, Field(ge=0.5, lt=1)] = Field(
        default=0.8, description="the probability with which both must lose less"
    )
    qos: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="jobs of these QoS opt in, but for roost:share=no; any other one by its"
        " comment, roost:share=yes",
    )
    pairs: AbsolutePath | None = Field(
        default=None,
        description="CSV file of measured speeds of pairs; a pair that is not in it shares nothing",
    )

    separate: bool = Field(
        default=False,
        description="whether a pair that turned out bad is separated: in partitions with preemption"
        " one of its jobs is stopped, to run elsewhere",
    )
    separate_after_s: Seconds = Field(
        default=300.0,
        description="a pair is separated only after one of its jobs has been slower than limit"
        " allows for this long",
    )

    def to_core(
        self,
        pairs: tuple[PairSpeed, ...],
        preemption: PreemptionSection | None = None,
        partitions: Sequence[str] = (),
    ) -> SharingConfig | None:
        """Return the numbers as plain data for the core; None where jobs share nothing.

        Args:
            pairs: what was measured.
            preemption: what limits stops; None: its defaults.
            partitions: in which jobs may be stopped.
        """
        if not self.enabled:
            return None
        preemption = preemption or PreemptionSection()
        separation = SeparationConfig(
            partitions=tuple(sorted(partitions)),
            settle_s=self.separate_after_s,
            restart_s=preemption.restart_s,
            cooldown_s=preemption.cooldown_s,
            budget_per_hour=preemption.budget_per_hour,
        )
        return SharingConfig(
            limit_frac=self.limit,
            certainty_frac=self.certainty,
            pairs=pairs,
            separation=separation if self.separate else None,
        )
