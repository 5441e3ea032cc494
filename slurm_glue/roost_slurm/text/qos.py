"""What sacctmgr prints of each QoS beside its limits: the QoS that it may preempt, its flags.

slurmctld's own `scontrol show assoc_mgr` leaves these out. The answer comes from slurmdbd, so it is
missing on a site that runs without, and while slurmdbd is away.
"""

import contextlib
from dataclasses import dataclass
from math import isfinite

from roost_slurm.text.times import parse_limit

FIELDS = ("Name", "Preempt", "PreemptMode", "Flags", "LimitFactor", "PreemptExemptTime")

# Flags of a QoS, as sacctmgr prints them.
OVER_PARTITION_QOS = "OverPartQOS"  # its limits come before those of the partition's QoS
PARTITION_TIME_LIMIT = "PartitionTimeLimit"  # its jobs may exceed the partition's MaxTime
PARTITION_MAX_NODES = "PartitionMaxNodes"  # its jobs may exceed the partition's MaxNodes


@dataclass(frozen=True, slots=True, kw_only=True)
class QosTraits:
    """One QoS.

    Attributes:
        preempts: names of the QoS whose jobs its jobs may preempt.
        preempt_modes: how its own jobs are preempted, lower case: "cluster", "requeue", "cancel",
            "suspend", "within", several at once.
        limit_factor: multiplies the TRES limits of associations for its jobs; None: 1.
        preempt_exempt_s: for so long its jobs run before they may be preempted; None: it says
            nothing.
    """

    name: str
    preempts: frozenset[str] = frozenset()
    preempt_modes: frozenset[str] = frozenset({"cluster"})
    flags: frozenset[str] = frozenset()
    limit_factor: float | None = None
    preempt_exempt_s: float | None = None


def parse_qos(text: str) -> dict[str, QosTraits]:
    """Read the output of commands.show_qos(); lines that are no QoS are left out."""
    found = {}
    for line in text.split("\n"):
        values = line.split("|")
        if len(values) != len(FIELDS) or not values[0]:
            continue
        name, preempts, modes, flags, factor, exempt = values
        found[name] = QosTraits(
            name=name,
            preempts=_words(preempts),
            preempt_modes=_words(modes.lower()) or frozenset({"cluster"}),
            flags=_words(flags),
            limit_factor=_number(factor),
            preempt_exempt_s=_duration(exempt),
        )
    return found


def _words(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.split(",")))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _duration(text: str) -> float | None:
    with contextlib.suppress(ValueError):
        return parse_limit(text)
    return None
