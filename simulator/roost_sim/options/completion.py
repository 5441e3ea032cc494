"""Shell completion of policies, their parts, and cluster presets."""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from roost_sim.catalogue.compositions import POLICIES
from roost_sim.catalogue.gates import GATES
from roost_sim.catalogue.orders import ORDERS
from roost_sim.catalogue.placements import PLACEMENTS
from roost_sim.catalogue.preemptions import PREEMPTIONS
from roost_sim.clusters.presets import PRESET_NAMES

_KINDS: tuple[Iterable[str], ...] = (ORDERS, PLACEMENTS, GATES, PREEMPTIONS)


def policy_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return names of policies, and of the next part; see click's shell_complete."""
    return [CompletionItem(name) for name in _policies(incomplete)]


def policy_lists(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the same for the last of several policies, between commas."""
    before, comma, last = incomplete.rpartition(",")
    return [CompletionItem(before + comma + name) for name in _policies(last)]


def clusters(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the presets; the shell adds the files."""
    names = [CompletionItem(name) for name in PRESET_NAMES if name.startswith(incomplete)]
    return [*names, CompletionItem(incomplete, type="file")]


def _policies(incomplete: str) -> list[str]:
    before, plus, last = incomplete.rpartition("+")
    chosen_count = len(before.split("+")) if plus else 0
    if chosen_count >= len(_KINDS):
        return []
    names = [*_KINDS[chosen_count]] + ([] if plus else [*POLICIES])
    return [before + plus + name for name in dict.fromkeys(names) if name.startswith(last)]
