"""Rules by name for sharing GPUs: which two jobs may. Written after a policy: `roost@measured:0.5`.

A rule that has a limit takes it after a colon, 0.15 without; a second number is the certainty, 0.8
without. `:separate` at the end, of the measured rules, is roostd's `sharing.separate`: reported
speeds correct the table, and pairs that turn out bad are separated. Definitions:
docs/simulator/policies.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from roost_engine.domain.errors import PolicyError
from roost_engine.sharing.pairs import PairRule, SeparationConfig, SharingConfig
from roost_engine.sharing.separation_budget import SeparationBudget
from roost_sim.errors import SimError
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.policies.sharing.measured_rule import LearningMeasuredRule, MeasuredRule
from roost_sim.policies.sharing.published_rules import Blind, LifLinear, Lucid, lucid_classes
from roost_sim.worlds.sharing.sharing_spec import SharingJobs

_SEPARATES = "separate"
_NO_BUDGET = 1 << 30  # stops in an hour


@dataclass(frozen=True, slots=True)
class Numbers:
    """What may stand after the name of a rule. See roost_engine.sharing.pairs.SharingConfig."""

    limit_frac: float = SharingConfig().limit_frac
    certainty_frac: float = SharingConfig().certainty_frac
    separates: bool = False

    def separation(self) -> SeparationBudget | None:
        """When bad pairs are separated: every simulated job may be stopped, however often."""
        if not self.separates:
            return None
        return SeparationBudget(SeparationConfig(budget_per_hour=_NO_BUDGET))


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingPart:
    """One rule.

    Attributes:
        source: its definition in a line, with the paper.
        build: makes the rule.
        learns: whether it can learn from reported speeds, so that bad pairs can be separated.
    """

    source: str
    build: Callable[[PolicyInformation, SharingJobs, Numbers], PairRule]
    learns: bool = False


def _measured(
    whole: bool,
) -> Callable[[PolicyInformation, SharingJobs, Numbers], MeasuredRule]:
    def build(information: PolicyInformation, jobs: SharingJobs, numbers: Numbers) -> MeasuredRule:
        rule = LearningMeasuredRule if numbers.separates else MeasuredRule
        return rule.of(jobs, numbers.limit_frac, numbers.certainty_frac, whole=whole)

    return build


def _lucid(terciles: bool) -> Callable[[PolicyInformation, SharingJobs, Numbers], Lucid]:
    def build(information: PolicyInformation, jobs: SharingJobs, numbers: Numbers) -> Lucid:
        return Lucid(lucid_classes(jobs.pairs, terciles=terciles), jobs, information.predict())

    return build


SHARINGS: Mapping[str, SharingPart] = {
    "measured": SharingPart(
        source="roostd's rule: pairs that the site has measured, good for sure",
        build=_measured(whole=False),
        learns=True,
    ),
    "all-measured": SharingPart(
        source="the same, had the site measured every family of models",
        build=_measured(whole=True),
        learns=True,
    ),
    "blind": SharingPart(
        source="any two that opted in and fit", build=lambda information, jobs, numbers: Blind()
    ),
    "lucid": SharingPart(
        source="classes that add up to at most 2, as many GPUs each (Lucid, ASPLOS 2023)",
        build=_lucid(terciles=False),
    ),
    "lucid-terciles": SharingPart(
        source="the same, with a third of the kinds in each class", build=_lucid(terciles=True)
    ),
    "lif": SharingPart(
        source="a linear model expects both to lose little (after Harmony, INFOCOM 2019)",
        build=lambda information, jobs, numbers: LifLinear.of(jobs, numbers.limit_frac),
    ),
}


def parse_sharing(text: str) -> tuple[SharingPart, Numbers]:
    """Return the rule of `NAME[:LIMIT[:CERTAINTY]][:separate]`.

    Raises:
        PolicyError: no rule has this name, or a number is wrong; the message says what would be
            right.
    """
    name, *given = text.split(":")
    if name not in SHARINGS:
        near = get_close_matches(name, SHARINGS, n=1)
        cure = f"did you mean {near[0]}?" if near else f"there are {', '.join(SHARINGS)}"
        raise PolicyError(f"no sharing {name!r}: {cure}")
    separates = given[-1:] == [_SEPARATES]
    if separates:
        given.pop()
        if not SHARINGS[name].learns:
            raise PolicyError(f"{text}: {name} learns from no speeds, so it separates no pairs")
    try:
        numbers = [float(one) for one in given]
    except ValueError as error:
        raise PolicyError(f"{text}: want numbers after the colons") from error
    defaults = (Numbers().limit_frac, Numbers().certainty_frac)
    limit_frac, certainty_frac, *more = (*numbers, *defaults[len(numbers) :])
    found = Numbers(0.0 if more else limit_frac, certainty_frac, separates)
    if not (0.0 < found.limit_frac < 1.0 and 0.5 <= found.certainty_frac < 1.0):
        raise PolicyError(f"{text}: want a limit from 0 to 1, and a certainty from 0.5 to below 1")
    return SHARINGS[name], found


def sharing_of(text: str, information: PolicyInformation) -> PairRule:
    """Make the rule of `NAME[:LIMIT[:CERTAINTY]][:separate]`.

    Raises:
        SimError: the simulation has no pairs.
    """
    part, numbers = parse_sharing(text)
    if information.sharing is None:
        raise SimError(f"@{text} shares GPUs by measured pairs: name their file with --pairs")
    return part.build(information, information.sharing, numbers)
