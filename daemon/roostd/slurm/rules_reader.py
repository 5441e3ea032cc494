"""Asks Slurm for a site's rules, part by part: a part that cannot be read costs no other one."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import structlog

from roost_engine.domain.errors import SlurmError
from roost_slurm import commands
from roost_slurm.assoc_mgr import parse_assoc_mgr
from roost_slurm.commands import Argv
from roost_slurm.licenses import parse_licenses
from roost_slurm.partitions import parse_partitions
from roost_slurm.qos import parse_qos
from roost_slurm.reservations import parse_reservations
from roost_slurm.scheduling import Scheduling, parse_scheduling
from roostd.slurm.rules import SiteRules

_log = structlog.get_logger(__name__)

# A QoS' flags and preemption change seldom, and are the only question that goes to slurmdbd.
_QOS_AGE_S = 60.0
_CONTROLLER_PARTS: tuple[tuple[str, Callable[[], Argv], Callable[[str], Any]], ...] = (
    ("scheduling", commands.show_config, parse_scheduling),
    ("partitions", commands.show_partitions, parse_partitions),
    ("reservations", commands.show_reservations, parse_reservations),
    ("licenses", commands.show_licenses, parse_licenses),
)


class RulesReader:
    """Keeps the rules of the last reading.

    Args:
        ask: runs a command and returns its output.
        interval_s: returns the least time between two readings.
        epoch: the wall clock.
    """

    def __init__(
        self,
        ask: Callable[[Argv], Awaitable[str]],
        interval_s: Callable[[], float],
        epoch: Callable[[], float] = time.time,
    ) -> None:
        self._ask, self._interval_s, self._epoch = ask, interval_s, epoch
        self._lock = asyncio.Lock()
        self._rules = SiteRules()
        self._read_s = self._qos_read_s = float("-inf")
        self._failing: set[str] = set()

    async def read(self) -> SiteRules:
        """Return the rules, as old as the interval at most.

        A part that cannot be read stays as it was; it is logged once, until it can be read again.
        The parts are asked for one after the other, to leave the commands' slots to pins.
        """
        async with self._lock:
            if time.monotonic() - self._read_s < self._interval_s():
                return self._rules
            self._read_s = time.monotonic()
            rules = replace(self._rules, read_epoch_s=self._epoch())
            for part, argv_of, parse in _CONTROLLER_PARTS:
                rules = await self._with(rules, part, argv_of(), parse)
            if _uses_accounting(rules.scheduling):
                argv = commands.show_assoc_mgr()
                rules = await self._with(rules, "accounting", argv, parse_assoc_mgr)
                if self._read_s - self._qos_read_s >= _QOS_AGE_S:
                    self._qos_read_s = self._read_s
                    rules = await self._with(rules, "qos_traits", commands.show_qos(), parse_qos)
            self._rules = rules
            return rules

    async def _with(
        self, rules: SiteRules, part: str, argv: Argv, parse: Callable[[str], Any]
    ) -> SiteRules:
        """Return the rules with one part read anew."""
        try:
            text = await self._ask(argv)
        except SlurmError as error:
            if part not in self._failing:
                _log.warning("site_rules_unreadable", part=part, error=str(error))
            self._failing.add(part)
            return rules
        self._failing.discard(part)
        # The associations of thousands of users take tenths of a second.
        return replace(rules, **{part: await asyncio.to_thread(parse, text)})


def _uses_accounting(scheduling: Scheduling) -> bool:
    return scheduling.enforces_limits or scheduling.preempt_type == "preempt/qos"
