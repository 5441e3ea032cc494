"""Changes of a partition's mode while roostd runs: audited, then in effect in a fresh engine."""

from collections.abc import Awaitable, Callable, Mapping

import structlog

from roostd.app.promotion.policy_desk import PolicyDesk
from roostd.config.config import Config, Mode, Partition
from roostd.ops import audit
from roostd.rpc.errors import UnknownPartition
from roostd.rpc.services.modes import ModeChange
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)


class ModeDesk:
    """Changes modes. The configuration file is not written: a reload or a restart reads it again.

    Args:
        state: the daemon's.
        desk: has the operator's configuration, and puts what is promoted into it.
        restart: replaces the engine by a fresh one, and brings what depends on modes up to date.
        configured: the configuration at the start; see `reloaded`.
    """

    def __init__(
        self,
        state: DaemonState,
        desk: PolicyDesk,
        restart: Callable[[], Awaitable[None]],
        configured: Config,
    ) -> None:
        self._state, self._desk, self._restart = state, desk, restart
        self._from_file = configured

    def reloaded(self, config: Config) -> None:
        """Note that the configuration was read again: its modes hold from now on."""
        self._from_file = config

    async def set_mode(
        self, partition: str, mode: Mode, by: str, caller: Mapping[str, object]
    ) -> ModeChange:
        """Change a partition's mode. A mode that it has already is audited, and nothing else.

        Raises:
            UnknownPartition: neither Slurm nor the configuration has it.
            JournalError: the change cannot be audited, and was not made.
        """
        self._check_known(partition)
        was = self._state.config.mode_of(partition)
        facts = {"partition": partition, "mode": str(mode), "was": str(was), **caller}
        digest = audit.append(self._state.config.paths.state_dir, "set_mode", by, **facts)
        _log.info("mode_set", by=by, **facts, chain=digest)
        if mode is not was:
            self._desk.configure(_with_mode(self._desk.configured, partition, mode))
            await self._restart()
        configured = self._from_file.mode_of(partition)
        return ModeChange(partition=partition, mode=mode, was=was, configured=configured)

    def _check_known(self, partition: str) -> None:
        specs = self._state.engine.cluster.specs
        known = {name for spec in specs if spec is not None for name in spec.partitions}
        known.update(self._state.config.partitions)
        if partition not in known:
            there = ", ".join(sorted(known)) or "none: Slurm has not named a node with GPUs yet"
            raise UnknownPartition(f"no partition {partition[:64]!r}; there are {there}")


def _with_mode(config: Config, name: str, mode: Mode) -> Config:
    listed = config.partitions.get(name, Partition())
    changed = {**config.partitions, name: listed.model_copy(update={"mode": mode})}
    return config.model_copy(update={"partitions": changed})
