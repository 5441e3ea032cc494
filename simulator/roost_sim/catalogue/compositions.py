"""Policies by name: compositions of an order, a placement rule, a gate and a preemption rule.

With four separate parts, a comparison shows which of them makes the difference. Any composition can
be written `order+placement+gate+preemption`; parts left off at the end take the default. A policy
shares GPUs by the rule after an `@`: `roost@measured`.
Page: docs/simulator/README.md.
"""

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches

from roost_engine.domain.errors import PolicyError
from roost_engine.plugins.stacks import STACKS, Stack
from roost_sim.catalogue.composition import Composition
from roost_sim.catalogue.dated_stacks import DATED_STACKS
from roost_sim.catalogue.gates import GATES, gate_of, gate_part, has_arguments
from roost_sim.catalogue.orders import ORDERS, SELECTOR, has_order_arguments, order_part
from roost_sim.catalogue.placements import PLACEMENTS, has_own_model, placement_of
from roost_sim.catalogue.preemptions import PREEMPTIONS, preemption_part
from roost_sim.catalogue.sharings import parse_sharing
from roost_sim.errors import SimError


class PolicyNameError(SimError):
    """No policy, and no part of a policy, has this name."""


# The six baselines of TopDRL's evaluation are not published; these are the best documented ones,
# and TopDRL's own choice of GPUs without learning. "DRF" and "Tetris" are the laboratory's names.
TOPDRL_BASELINES = (
    ("fcfs-ff", "fifo", "first-fit"),
    ("fcfs-lb", "fifo", "load-balance-tree"),
    ("sjf-lb", "sjf", "load-balance-tree"),
    ("drf-lb", "smallest-first", "load-balance-tree"),
    ("tetris-lb", "largest-first", "load-balance-tree"),
    ("random", "random-order", "random"),
    ("fcfs-knn", "fifo", "knn"),
    ("sjf-knn", "sjf", "knn"),
)

NOT_PREEMPTIVE = (
    *("fifo", "sjf", "ssf", "drf", "optimus", "asrpt"),
    *("smallest-first", "largest-first", "random-order"),
)


def _preemptive(name: str, order: str, preemption: str, placement: str = "") -> Composition:
    return Composition(
        name=name, order=order, placement=placement or "consolidation", preemption=preemption
    )


_PREEMPTIVE_ORDERS = (
    ("srtf", "srtf-pays-moves"),
    ("srsf", "srsf-moves"),
    ("las", "las-moves"),
    ("gittins-2d", "gittins-moves"),
)

DATED = tuple(Composition(**stack._asdict()) for stack in DATED_STACKS)

BASELINES = (
    *DATED,
    *(_preemptive(name, name, rule) for name, rule in _PREEMPTIVE_ORDERS),
    *(_preemptive(f"{name}-strict", name, rule, "strict") for name, rule in _PREEMPTIVE_ORDERS),
    _preemptive("tiresias", "tiresias", "tiresias-moves", "skew"),
    _preemptive("tiresias-scattered", "tiresias", "tiresias", "skew-scattered"),
    _preemptive("tiresias-consolidated", "tiresias", "tiresias-moves"),
    _preemptive("tiresias-strict", "tiresias", "tiresias-moves", "strict"),
    _preemptive("tiresias-lucid", "tiresias-lucid", "tiresias-lucid"),
    _preemptive("tiresias-blox", "least-run-time", "least-run-time"),
    _preemptive("tiresias-dally", "las", "leases", "skew-dally"),
    _preemptive("gandiva", "longest-waiting", "time-slices"),
    _preemptive("gandiva-strict", "longest-waiting", "time-slices", "strict"),
    _preemptive("gandiva-dally", "latest-start", "leases", "machine-or-random"),
    _preemptive("themis", "themis", "themis-leases"),
    _preemptive("s-rank", "s-rank", "leases"),
    Composition(
        name="dally", order="s-rank", placement="first-found", gate="dally", preemption="leases"
    ),
    Composition(name="tetris", order="tetris", placement="tetris"),
    Composition(name="lif", order="fifo", placement="lif"),
    Composition(name="lwf", order="fifo", placement="lwf-1"),
    Composition(name="first-fit", order="fifo", placement="first-fit"),
    Composition(name="load-balance", order="fifo", placement="load-balance"),
    Composition(name="lwf-srsf", order="srsf", placement="lwf-1", preemption="srsf"),
    Composition(name="random", order="random-order", placement="random"),
    Composition(name="slurm", order="fifo", placement="slurm-24.05", gate="easy"),
    Composition(name="slurm-22.05", order="fifo", placement="slurm-22.05", gate="easy"),
    Composition(
        name="slurm-switches", order="fifo", placement="slurm-switches", gate="easy-switches"
    ),
)


def _of_stack(stack: Stack) -> Composition:
    """Return the policy that is a stack of roostd."""
    return Composition(
        name=stack.name,
        order=stack.order.value,
        placement=placement_of(stack),
        gate=gate_of(stack),
        preemption=stack.preemption.value,
    )


POLICIES: Mapping[str, Composition] = {
    composition.name: composition
    for composition in (
        *map(_of_stack, STACKS.values()),
        *(Composition(name=order, order=order) for order in NOT_PREEMPTIVE),
        *BASELINES,
        Composition(name="fifo-easy", order="fifo", gate="easy"),
        Composition(name="fifo-block", order="fifo", gate="block"),
        *(
            Composition(name=f"{order}-strict", order=order, placement="strict")
            for order in ("fifo", "sjf")
        ),
        # TopDRL with Roost's own selector, which was trained with reservations.
        Composition(name="topdrl", order=SELECTOR, placement="knn", gate="patient"),
        *(
            Composition(name=f"topdrl-{name}", order=order, placement=placement)
            for name, order, placement in TOPDRL_BASELINES
        ),
    )
}

_KINDS: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("order", ORDERS),
    ("placement", PLACEMENTS),
    ("gate", GATES),
    ("preemption", PREEMPTIONS),
)


def find_policy(name: str) -> Composition:
    """Return the policy of a name, or the composition `order+placement+gate+preemption`.

    Either may be followed by `@` and the rule by which jobs share GPUs.

    Raises:
        PolicyNameError: no policy or part has this name; the message has the nearest name.
    """
    alone, at, sharing = name.partition("@")
    if at:
        try:
            parse_sharing(sharing)
        except PolicyError as error:
            raise PolicyNameError(str(error)) from error
        return replace(find_policy(alone), name=name, sharing=sharing)
    if name in POLICIES:
        return POLICIES[name]
    parts = name.split("+")
    if len(parts) == 1:
        raise PolicyNameError(_no_such("policy", name, POLICIES))
    if len(parts) > len(_KINDS):
        raise PolicyNameError(f"{name}: want at most order+placement+gate+preemption")
    chosen: dict[str, str] = {}
    for (kind, known), part in zip(_KINDS, parts, strict=False):
        if kind == "gate" and has_arguments(part):
            gate_part(part)
        elif kind == "order" and has_order_arguments(part):
            order_part(part)
        elif kind == "preemption" and part.partition(":")[0] in known:
            preemption_part(part)
        elif part not in known and not (kind == "placement" and has_own_model(part)):
            raise PolicyNameError(_no_such(kind, part, known))
        chosen[kind] = part
    return Composition(name=name, **chosen)


def _no_such(kind: str, name: str, known: Mapping[str, object]) -> str:
    near = get_close_matches(name, known, n=1)
    cure = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"no {kind} {name!r}: {cure}"
