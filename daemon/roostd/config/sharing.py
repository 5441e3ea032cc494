"""The section about jobs that share GPUs. Page: docs/sharing.md."""

from typing import Annotated

from pydantic import Field

from roost_engine.sharing.pairs import PairSpeed, SharingConfig
from roostd.config.values import AbsolutePath, Section


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
        description="jobs of these QoS opt in; any other one by its comment, roost:share=yes",
    )
    pairs: AbsolutePath | None = Field(
        default=None,
        description="CSV file of measured speeds of pairs; a pair that is not in it shares nothing",
    )

    def to_core(self, pairs: tuple[PairSpeed, ...]) -> SharingConfig | None:
        """Return the numbers as plain data for the core; None where jobs share nothing."""
        if not self.enabled:
            return None
        return SharingConfig(limit_frac=self.limit, certainty_frac=self.certainty, pairs=pairs)
