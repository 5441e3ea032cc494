"""Orders by name: the order in which waiting jobs are offered GPUs.

Definitions: docs/simulator/policies.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from roost_engine.plugins.policy_kinds import make_order
from roost_engine.plugins.stacks import LONGEST_WAIT_S, OrderKind
from roost_engine.policies.protocols import OrderPolicy
from roost_engine.prediction.run_time.prediction_skill import TrustConfig
from roost_engine.prediction.service import ServiceIndex
from roost_engine.queue.learned_order import LearnedOrderConfig
from roost_engine.queue.orders import OrderByValue, Value
from roost_formats.models.order import BUILTIN_SELECTOR
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.information.predictions import Predictions
from roost_sim.policies.order.alignment_order import AlignmentOrder
from roost_sim.policies.order.dominant_share import LeastShareFirst
from roost_sim.policies.order.gittins import GittinsIndex
from roost_sim.policies.order.job_values import (
    Remaining,
    attained_time,
    latest_start,
    longest_waiting,
)
from roost_sim.policies.order.learned_numbers import LEARNED, learned_config, longest_wait_s
from roost_sim.policies.order.service_levels import (
    LUCID_LIMITS_GPU_S,
    TIRESIAS_LIMITS_GPU_S,
    ServiceLevels,
)
from roost_sim.policies.order.speed_curve import MarginalGain, curves_of
from roost_sim.policies.order.static_orders import (
    largest_first,
    least_service_first,
    random_order,
    shortest_first,
    smallest_first,
)
from roost_sim.policies.order.themis import WorstOffFirst
from roost_sim.policies.order.virtual_srpt import VirtualSrpt
from roost_sim.policies.part_numbers import parse_numbers
from roost_sim.worlds.fidelity import Regime


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPart:
    """One order: how to build it, and what it needs to know.

    Attributes:
        regime: what it knows about run times.
        source: its definition in a line, with the paper.
        build: makes the engine's plug-in.
        asks_speed: whether it depends on how fast jobs run.
        kind: of an order that roostd has too: the engine's plug-ins make it, in place of `build`.
        learned: the numbers of the learned order.
        longest_wait_s: see policies.BoundedOrder.
        model: the file of a job selector, which ranks the jobs in place of `build`.
    """

    regime: Regime
    source: str
    build: Callable[[PolicyInformation], OrderPolicy]
    asks_speed: bool = False
    kind: OrderKind | None = None
    learned: LearnedOrderConfig | None = None
    longest_wait_s: float = inf
    model: Path | None = None


def _of_roostd(kind: OrderKind, source: str, asks_speed: bool = False) -> OrderPart:
    """Take an order from the engine."""
    return OrderPart(
        regime=Regime.NONE,
        source=source,
        build=lambda information: make_order(kind),
        asks_speed=asks_speed,
        kind=kind,
        longest_wait_s=inf if kind.has_ageing else LONGEST_WAIT_S,
    )


def _learned(numbers: LearnedOrderConfig, source: str) -> OrderPart:
    """Take the learned order from the engine."""
    return OrderPart(
        regime=Regime.PREDICTED,
        source=f"{source}, by the run times of jobs like it, with ageing",
        build=lambda information: make_order(OrderKind.LEARNED, learned=numbers),
        kind=OrderKind.LEARNED,
        learned=numbers,
    )


def _by(value: Value, source: str) -> OrderPart:
    """Make an order that needs no run times."""
    return OrderPart(
        regime=Regime.NONE, source=source, build=lambda information: OrderByValue(value)
    )


def remaining(information: PolicyInformation) -> Remaining:
    """Return the remaining work of jobs, by the run times that the policy knows."""
    work_s = information.work_s
    beyond = work_s.left_s if isinstance(work_s, Predictions) else None
    return Remaining(work_s, information.progress, beyond)


_TOPDRL = "Ayadi et al., JPDC 2025, job selectors"

SELECTOR = "selector"
"""The job selector that ships with Roost; `selector:FILE` is the one of a file."""

_WITHOUT_AGEING = tuple(kind.value for kind in OrderKind if not kind.has_ageing)


def order_part(name: str) -> OrderPart:
    """Return the order of a name.

    `learned:KEY=NUMBER:...` is the learned order with other numbers, `las:longest_wait_s=NUMBER` an
    order without ageing with another bound; `selector:FILE` is the job selector of a file.

    Raises:
        PartNumbersError: the numbers cannot be used.
        KeyError: no order has this name.
    """
    if name.startswith(f"{LEARNED}:"):
        numbers = learned_config(parse_numbers(name))
        return _learned(numbers, "least expected GPU-seconds first, with other numbers")
    kind, colon, _ = name.partition(":")
    if colon and kind in _WITHOUT_AGEING:
        return replace(ORDERS[kind], longest_wait_s=longest_wait_s(parse_numbers(name)))
    if not has_order_arguments(name):
        return ORDERS[name]
    return _selector(Path(name.partition(":")[2]))


def has_order_arguments(name: str) -> bool:
    """Return whether an order's name says more than which order it is."""
    kinds = (SELECTOR, LEARNED, *_WITHOUT_AGEING)
    return name.startswith(tuple(f"{kind}:" for kind in kinds))


def _selector(model: Path) -> OrderPart:
    """Take the jobs as a trained selector ranks them, by the run times that roostd predicts."""
    return OrderPart(
        regime=Regime.PREDICTED,
        source=f"{_TOPDRL}: the selector {model.name}, by the run times of jobs like each",
        build=lambda information: make_order(OrderKind.LEARNED),
        model=model,
    )


_TIRESIAS = "Gu et al., Tiresias, NSDI 2019"

ORDERS: Mapping[str, OrderPart] = {
    "fifo": _of_roostd(OrderKind.PRIORITY, "submission time, then id"),
    "priority": _of_roostd(
        OrderKind.PRIORITY, "Slurm's priority, then submission; jobs of a trace have no priority"
    ),
    "sjf": OrderPart(
        regime=Regime.ORACLE,
        source="shortest ideal run time first, not preemptive",
        build=lambda information: shortest_first(information.work_s),
    ),
    "ssf": OrderPart(
        regime=Regime.ORACLE,
        source="fewest ideal GPU-seconds first, not preemptive",
        build=lambda information: least_service_first(information.work_s),
    ),
    "srtf": OrderPart(
        regime=Regime.ORACLE,
        source="shortest remaining ideal run time first",
        build=lambda information: OrderByValue(remaining(information).time),
    ),
    "srsf": OrderPart(
        regime=Regime.ORACLE,
        source=f"fewest remaining GPU-seconds first; {_TIRESIAS}",
        build=lambda information: OrderByValue(remaining(information).service),
    ),
    "las": _of_roostd(OrderKind.LAS, f"least attained GPU-seconds first; {_TIRESIAS}, continuous"),
    "least-run-time": _by(attained_time, "least attained seconds first, as Blox has Tiresias"),
    "tiresias": _by(
        ServiceLevels(TIRESIAS_LIMITS_GPU_S).value,
        f"{_TIRESIAS}: queues by attained GPU-seconds, limits 3250, 7200, 18000",
    ),
    "tiresias-lucid": _by(
        ServiceLevels(LUCID_LIMITS_GPU_S).value,
        "Hu et al., Lucid, ASPLOS 2023, its Tiresias: two queues, limit 18000 GPU-seconds",
    ),
    "gittins-2d": OrderPart(
        regime=Regime.PREDICTED,
        source=f"{_TIRESIAS}: Gittins index, quantum 3250 GPU-seconds, by the jobs ended so far",
        build=lambda information: OrderByValue(GittinsIndex(information.progress).value),
    ),
    "longest-waiting": _by(longest_waiting, "longest wait since submission or preemption first"),
    "latest-start": _by(
        latest_start, "Sharma et al., arXiv 2401.16492, its Gandiva: latest start first"
    ),
    "s-rank": _of_roostd(
        OrderKind.S_RANK,
        "Sharma et al., arXiv 2401.16492: least of the ideal speed achieved first",
        asks_speed=True,
    ),
    LEARNED: _learned(LearnedOrderConfig(), "least expected GPU-seconds first"),
    "learned-trusting": _learned(
        LearnedOrderConfig(earned_trust=False), "least expected GPU-seconds first, always trusted"
    ),
    "learned-easily": _learned(
        LearnedOrderConfig(trust=TrustConfig(fewest_runs=300, doubt=0.0)),
        "least expected GPU-seconds first, trusted with less proof",
    ),
    "learned-left": replace(
        _of_roostd(
            OrderKind.LEARNED_LEFT,
            "least expected GPU-seconds left for an end (Gittins), by run times of jobs like it",
        ),
        regime=Regime.PREDICTED,
    ),
    "left-trusting": replace(
        _of_roostd(OrderKind.LEARNED_LEFT, "as learned-left, always trusted"),
        regime=Regime.PREDICTED,
        learned=LearnedOrderConfig(earned_trust=False),
    ),
    "known-left": replace(
        _of_roostd(
            OrderKind.KNOWN_LEFT,
            "as las to 8 GPU-hours; then as learned-left where one of its user and size has ended",
        ),
        regime=Regime.PREDICTED,
    ),
    "learned-gittins": _learned(
        LearnedOrderConfig(index=ServiceIndex.GITTINS), "largest Gittins index first"
    ),
    "learned-risk": _learned(
        LearnedOrderConfig(index=ServiceIndex.RISK),
        "least expected GPU-seconds first, if each job takes longer than its median",
    ),
    "learned-unbounded": _learned(
        LearnedOrderConfig(window_s=inf, ageing=1e6), "least expected GPU-seconds first, no ageing"
    ),
    SELECTOR: _selector(BUILTIN_SELECTOR),
    "themis": OrderPart(
        regime=Regime.ORACLE,
        source="Mahajan et al., Themis, NSDI 2020: worst finish-time fairness first, worst fifth",
        build=lambda information: WorstOffFirst(remaining(information)),
    ),
    "drf": OrderPart(
        regime=Regime.NONE,
        source="Ghodsi et al., NSDI 2011, in DL2's form: least dominant share with the job first",
        build=lambda information: LeastShareFirst(information.progress),
    ),
    "tetris": OrderPart(
        regime=Regime.ORACLE,
        source="Grandl et al., Tetris, SIGCOMM 2014: alignment less remaining work",
        build=lambda information: AlignmentOrder(remaining(information)),
    ),
    "optimus": OrderPart(
        regime=Regime.ORACLE,
        source="Peng et al., Optimus, EuroSys 2018: most remaining time saved by the last GPU",
        build=lambda information: OrderByValue(
            MarginalGain(remaining(information), curves_of(information)).value
        ),
    ),
    "asrpt": OrderPart(
        regime=Regime.PREDICTED,
        source="Luo et al., A-SRPT, INFOCOM 2025: as jobs end on a virtual machine under SRPT",
        build=lambda information: VirtualSrpt(information.predict, information.cluster_gpu_count),
    ),
    "smallest-first": OrderPart(
        regime=Regime.NONE,
        source=f'{_TOPDRL}: "DRF", fewest GPUs first',
        build=lambda information: smallest_first(),
    ),
    "largest-first": OrderPart(
        regime=Regime.NONE,
        source=f'{_TOPDRL}: "Tetris", most GPUs first',
        build=lambda information: largest_first(),
    ),
    "random-order": OrderPart(
        regime=Regime.NONE,
        source=f"{_TOPDRL}: random",
        build=lambda information: random_order(information.seed),
    ),
}
