"""The stacks as they were, under their dates: to compare the present ones with.

They are the stacks before docs/results/networks.md, before `roost` had longer leases, before the
learned order trusted predictions only as far as they proved right, before jobs waited for common
shapes only and few runs were no proof, before `roost-learned` lost trust in predictions that prove
wrong (docs/results/order.md), before `default` waited for closer GPUs and stopped no job, and while
simulated jobs waited for tight shapes without end (docs/results/default.md). What they decide must
not change: tests/engine/test_decisions.py.
Page: docs/stacks.md.
"""

from typing import NamedTuple


class DatedStack(NamedTuple):
    """The parts of a stack, by their names in the simulator: see composition.Composition."""

    name: str
    order: str
    placement: str = "consolidation"
    gate: str = "open"
    preemption: str = "none"


DATED_STACKS = (
    DatedStack(
        name="default-2026-11-28",
        order="priority",
        placement="onnx-score",
        gate="patient",
        preemption="network",
    ),
    DatedStack(
        name="default-no-preemption-2026-11-28",
        order="priority",
        placement="onnx-score",
        gate="patient",
    ),
    DatedStack(
        name="default-2026-11-28b",
        order="priority",
        placement="onnx-shapes-only",
        gate="patient-uplink-delay",
    ),
    DatedStack(name="roost-2026-11", order="las", gate="delay", preemption="las-moves"),
    DatedStack(
        name="roost-2026-11-28",
        order="las",
        placement="tight-gangs-only",
        gate="uplink-delay",
        preemption="las-closer-moves:360",
    ),
    DatedStack(
        name="roost-2026-11-28b",
        order="las",
        placement="tight-gangs-only",
        gate="uplink-delay",
        preemption="las-closer-moves",
    ),
    DatedStack(
        name="roost-learned-2026-11-28",
        order="left-trusting",
        placement="strict",
        gate="delay",
        preemption="learned-moves",
    ),
    DatedStack(
        name="roost-learned-2026-11-28b",
        order="left-trusting",
        placement="shapes-only",
        gate="delay",
        preemption="learned-moves",
    ),
    DatedStack(
        name="roost-learned-2026-11-28c",
        order="left-trusting",
        placement="common-shapes",
        gate="delay",
        preemption="learned-moves",
    ),
    DatedStack(
        name="roost-makespan-2026-11-28",
        order="s-rank",
        placement="strict",
        gate="delay",
        preemption="leases",
    ),
    DatedStack(
        name="roost-makespan-2026-11-28b",
        order="s-rank",
        placement="shapes-only",
        gate="delay",
        preemption="leases",
    ),
    DatedStack(
        name="roost-no-preemption-2026-11-28c",
        order="learned",
        placement="shapes-only",
        gate="patient-uplink-delay",
    ),
    DatedStack(
        name="roost-no-preemption-2026-11-28b",
        order="learned-easily",
        placement="strict",
        gate="patient-uplink-delay",
    ),
    DatedStack(
        name="roost-no-preemption-2026-11-28",
        order="learned-trusting",
        placement="strict",
        gate="patient-uplink-delay",
    ),
    DatedStack(
        name="roost-no-preemption-2026-11",
        order="priority",
        placement="strict",
        gate="patient-delay",
    ),
)
