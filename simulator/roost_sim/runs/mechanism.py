"""How Roost keeps a waiting job in Slurm until its GPUs are free.

Page: docs/design/0012-standing-pins.md.
"""

from dataclasses import replace
from enum import StrEnum

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

    def engine_config(self, default: EngineConfig) -> EngineConfig:
        """Return the engine's numbers, with those of the mechanism."""
        return replace(
            default,
            standing_pins=self is not Mechanism.LEASE,
            standing_pins_are_final=self is Mechanism.ONE_PIN,
        )
