"""Fidelity: five switches for effects of a real cluster, and their two usual settings.

Papers leave out most of these effects, and their figures can only be compared with a simulator that
does the same. What an operator can expect needs all of them. So headline figures are given twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from roost_sim.worlds.restart_cost import RestartRule


class Regime(StrEnum):
    """What a policy knows about the run time of a job; the most knowledge first."""

    ORACLE = "oracle"
    PREDICTED = "predicted"
    LIMIT = "limit"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """The five switches.

    Attributes:
        is_contended: jobs share links, and slow each other on full ones.
        has_neighbours: jobs on one node slow each other's communication.
        restart: what a preemption and restart cost.
        durations: what an oracle knows about run times; other policies know what their definition
            says in any case.
        has_links: which GPUs of a node a job holds changes how fast it communicates.
    """

    is_contended: bool
    has_neighbours: bool
    restart: RestartRule
    durations: Regime
    has_links: bool = False


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
        has_links=True,
    ),
}
DEFAULT_FIDELITY = replace(FIDELITIES[Setting.FIELD], durations=Regime.ORACLE)
"""Without `--regime`: field, but oracles know the true run times, as a reference for others."""
