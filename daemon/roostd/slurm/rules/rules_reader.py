"""Asks Slurm for a site's rules, part by part: a part that cannot be read costs no other one."""

import asyncio
import grp
import pwd
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Any, TypeAlias

import structlog

from roost_engine.domain.errors import SlurmError
from roost_slurm.text import commands
from roost_slurm.text.assoc_mgr import parse_assoc_mgr
from roost_slurm.text.commands import Argv
from roost_slurm.text.licenses import parse_licenses
from roost_slurm.text.partitions import parse_partitions
from roost_slurm.text.qos import parse_qos
from roost_slurm.text.reservations import parse_reservations
from roost_slurm.text.scheduling import parse_scheduling
from roostd.slurm.rules.site_rules import SiteRules

_log = structlog.get_logger(__name__)

# A QoS' flags and preemption change seldom, and are the only question that goes to slurmdbd.
_QOS_AGE_S = 60.0
_GROUPS_AGE_S = 60.0  # likewise; the machine's own databases may ask a directory
# What people change while jobs wait. Each answer takes slurmctld a few milliseconds.
_CHANGING_AGE_S = 1.0
_NEW_JOB_AGE_S = 0.2  # likewise, where a job has come since: it is judged by what holds now
_Part: TypeAlias = tuple[str, Callable[[], Argv], Callable[[str], Any]]
_SCHEDULING: _Part = ("scheduling", commands.show_config, parse_scheduling)
_ACCOUNTING: _Part = ("accounting", commands.show_assoc_mgr, parse_assoc_mgr)
_QOS_TRAITS: _Part = ("qos_traits", commands.show_qos, parse_qos)
_RESERVATIONS: _Part = ("reservations", commands.show_reservations, parse_reservations)
_CHANGING_PARTS: tuple[_Part, ...] = (
    ("partitions", commands.show_partitions, parse_partitions),
    _RESERVATIONS,
    ("licenses", commands.show_licenses, parse_licenses),
)


def user_id_of(name: str) -> int | None:
    """Return the id of a user by the machine's own user database."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def members_of(name: str) -> frozenset[int]:
    """Return the ids of a group's users by the machine's own databases, as slurmctld finds them.

    These are the users that the group names and those whose own group it is.
    """
    try:
        group = grp.getgrnam(name)
    except KeyError:
        return frozenset()
    named = (user_id_of(user) for user in group.gr_mem)
    own = (user.pw_uid for user in pwd.getpwall() if user.pw_gid == group.gr_gid)
    return frozenset(own) | frozenset(uid for uid in named if uid is not None)


class RulesReader:
    """Keeps the rules of the last reading.

    Args:
        ask: runs a command and returns its output.
        interval_s: returns the least time between two readings of all parts; what people change
            while jobs wait is read once a second.
        epoch: the wall clock.
        uid_of: the id of a user; None: there is no such user.
    """

    def __init__(
        self,
        ask: Callable[[Argv], Awaitable[str]],
        interval_s: Callable[[], float],
        epoch: Callable[[], float] = time.time,
        uid_of: Callable[[str], int | None] = user_id_of,
    ) -> None:
        self._ask, self._interval_s, self._epoch = ask, interval_s, epoch
        self._uid_of = uid_of
        self._groups_read_s = float("-inf")
        self._lock = asyncio.Lock()
        self._rules = SiteRules()
        self._changing_read_s = self._read_s = self._qos_read_s = float("-inf")
        self._failing: set[str] = set()
        self._newest_job = 0  # at the last reading of what people change
        self._newest_beside = 0  # at the last reading of the reservations
        self._used_qos: set[str] = set()  # in the queue at a reading of the limits

    async def read(self, qos_names: Collection[str] = (), newest_job: int = 0) -> SiteRules:
        """Return the rules, as old as the interval at most.

        A part that cannot be read stays as it was; it is logged once, until it can be read again.
        The parts are asked for one after the other, to leave the commands' slots to pins.

        Args:
            qos_names: of the jobs in the queue. One that was not there at the last reading makes
                the limits outdated: slurmctld prints a QoS' limits for each user only from its
                first job on.
            newest_job: the highest record number in the queue.
        """
        async with self._lock:
            now_s, interval_s, rules = time.monotonic(), self._interval_s(), self._rules
            age_s = _NEW_JOB_AGE_S if newest_job > self._newest_job else _CHANGING_AGE_S
            if now_s - self._changing_read_s >= min(interval_s, age_s):
                self._changing_read_s, self._newest_job = now_s, newest_job
                rules = replace(rules, read_epoch_s=self._epoch())
                for part in _CHANGING_PARTS:
                    rules = await self._with(rules, part)
                self._newest_beside = newest_job
                rules = await self._with_user_ids(rules)
                rules = await self._with_group_members(rules, now_s)
            elif newest_job > self._newest_beside:
                # Slurm does not keep a pin off the GPUs of a reservation that was made just now.
                self._newest_beside = newest_job
                rules = await self._with(replace(rules, read_epoch_s=self._epoch()), _RESERVATIONS)
                rules = await self._with_user_ids(rules)
            names, is_due = set(qos_names), now_s - self._read_s >= interval_s
            has_new_use = _uses_accounting(rules) and not self._used_qos >= names
            if is_due or has_new_use:
                has_new_qos = self._read_s > 0 and not rules.qos_traits.keys() >= names
                self._used_qos = names if is_due else self._used_qos | names
                self._read_s = now_s
                rules = await self._with_limits(rules, has_new_qos)
            self._rules = rules
            return rules

    async def _with_user_ids(self, rules: SiteRules) -> SiteRules:
        """Return the rules with the ids of the users that MAGNETIC reservations name."""
        magnetic = (one for one in rules.reservations if "MAGNETIC" in one.flags)
        names = {name.removeprefix("-") for one in magnetic for name in one.users}
        unknown = sorted(names - rules.user_ids.keys())
        if not unknown:
            return rules
        found = await asyncio.to_thread(lambda: {name: self._uid_of(name) for name in unknown})
        known = {name: uid for name, uid in found.items() if uid is not None}
        return replace(rules, user_ids={**rules.user_ids, **known})

    async def _with_group_members(self, rules: SiteRules, now_s: float) -> SiteRules:
        """Return the rules with the users of the groups that MAGNETIC reservations name."""
        magnetic = (one for one in rules.reservations if "MAGNETIC" in one.flags)
        names = {name.removeprefix("-") for one in magnetic for name in one.groups}
        is_due = now_s - self._groups_read_s >= _GROUPS_AGE_S
        if not names or not (is_due or names - rules.group_members.keys()):
            return rules
        self._groups_read_s = now_s
        read = members_of
        found = await asyncio.to_thread(lambda: {name: read(name) for name in sorted(names)})
        return replace(rules, group_members=found)

    async def _with_limits(self, rules: SiteRules, has_new_qos: bool) -> SiteRules:
        rules = await self._with(rules, _SCHEDULING)
        if rules.scheduling.has_slurmdbd or _uses_accounting(rules):
            rules = await self._with(rules, _ACCOUNTING)  # with the shares of users
        is_due = has_new_qos or self._read_s - self._qos_read_s >= _QOS_AGE_S
        if is_due and _uses_accounting(rules):
            self._qos_read_s = self._read_s
            rules = await self._with(rules, _QOS_TRAITS)
        return rules

    async def _with(self, rules: SiteRules, one: _Part) -> SiteRules:
        """Return the rules with one part as it is now."""
        part, argv_of, parse = one
        try:
            text = await self._ask(argv_of())
        except SlurmError as error:
            if part not in self._failing:
                _log.warning("site_rules_unreadable", part=part, error=str(error))
            self._failing.add(part)
            return rules
        self._failing.discard(part)
        # The associations of thousands of users take tenths of a second.
        return replace(rules, **{part: await asyncio.to_thread(parse, text)})


def _uses_accounting(rules: SiteRules) -> bool:
    scheduling = rules.scheduling
    preempts_by_qos = scheduling.preempt_type == "preempt/qos"
    spares_by_qos = scheduling.has_slurmdbd and scheduling.preempt_type != "preempt/none"
    return scheduling.enforces_limits or preempts_by_qos or spares_by_qos
