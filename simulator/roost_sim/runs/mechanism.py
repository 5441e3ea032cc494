"""How Roost keeps a waiting job in Slurm until its GPUs are free.

Page: docs/design/0012-standing-pins.md.
"""

from dataclasses import replace
from enum import StrEnum

from roost_engine.domain.config import FINAL_PIN_AFTER_S
from roost_engine.engine import EngineConfig


class Mechanism(StrEnum):
    """What roostd does with the jobs that wait, which depends on the release of Slurm."""

    LEASE = "lease"  # each waits under a lease, until it is pinned to GPUs that are free
    ONE_PIN = "one-pin"  # Slurm 22.05: the next job waits for busy GPUs, and cannot be moved
    STANDING = "standing"  # Slurm 24.11 and newer: it waits for busy GPUs, and can be moved

    @classmethod
    def of(cls, config: EngineConfig) -> "Mechanism":
        """Return the mechanism of an engine."""
        if not config.standing_pins:
            return cls.LEASE
        return cls.ONE_PIN if config.standing_pins_are_final else cls.STANDING

    def engine_config(
        self, default: EngineConfig, pin_after_s: float | None = None
    ) -> EngineConfig:
        """Return the engine's numbers, with those of the mechanism.

        Args:
            default: the other numbers.
            pin_after_s: how long a job waits before it may be pinned to busy GPUs; None: as roostd
                has it.
        """
        usual_s = FINAL_PIN_AFTER_S if self is Mechanism.ONE_PIN else default.standing_pin_after_s
        return replace(
            default,
            standing_pin_after_s=usual_s if pin_after_s is None else pin_after_s,
            standing_pins=self is not Mechanism.LEASE,
            standing_pins_are_final=self is Mechanism.ONE_PIN,
        )
