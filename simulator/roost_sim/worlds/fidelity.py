"""How much of a real cluster a simulation has: four switches, and the two ways they are set.

Papers leave most of it out, and their figures can only be compared with a simulator that does too.
What an operator may expect needs all of it. So headline figures are told twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from roost_sim.worlds.restart_cost import RestartRule


class Regime(StrEnum):
    """What a policy is told of the run time of a job."""

    ORACLE = "oracle"
    PREDICTED = "predicted"
    LIMIT = "limit"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """The four switches.

    Attributes:
        is_contended: jobs share links, and slow each other where these are full.
        has_neighbours: jobs on one node slow each other's communication.
        restart: what it costs to be stopped and started again.
        durations: what a policy is told that would be told true run times. The others are told
            what their definition says in any case.
    """

    is_contended: bool
    has_neighbours: bool
    restart: RestartRule
    durations: Regime


class Setting(StrEnum):
    """The values of `--regime`."""

    PAPER = "paper"
    FIELD = "field"


FIDELITIES: Mapping[Setting, Fidelity] = {
    Setting.PAPER: Fidelity(
        is_contended=False,
        has_neighbours=False,
        restart=RestartRule.DALLY,
        durations=Regime.ORACLE,
    ),
    Setting.FIELD: Fidelity(
        is_contended=True,
        has_neighbours=True,
        restart=RestartRule.MEASURED,
        durations=Regime.PREDICTED,
    ),
}
DEFAULT_FIDELITY = replace(FIDELITIES[Setting.FIELD], durations=Regime.ORACLE)
"""Without `--regime`: the field, but a policy listed as an oracle is one, to measure others by."""
