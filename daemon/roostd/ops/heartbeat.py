"""The heartbeat file: while it is fresh, job_submit.lua gives submitted jobs a lease."""

import socket
import time
from collections.abc import Sequence
from pathlib import Path

import structlog

from roost_slurm.hooks import heartbeat
from roostd.config.config import Config, Mode

_LONGEST_LIST_BYTES = heartbeat.MAX_BYTES // 5  # of accounts, and as much of each list of QoS
_log = structlog.get_logger(__name__)


class HeartbeatWriter:
    """Writes the heartbeat file, and removes it.

    Args:
        runtime_dir: the folder of the file.
    """

    def __init__(self, runtime_dir: Path) -> None:
        self._path = runtime_dir / "heartbeat"
        self._owner = owner_of(runtime_dir)

    def write(self, config: Config, registered_epoch_s: int) -> None:
        """Write the present time, the first lease, and whose jobs get one.

        Args:
            config: in effect.
            registered_epoch_s: see DaemonState.
        """
        try:
            heartbeat.write(self._path, _heartbeat(config, self._owner, registered_epoch_s))
        except (OSError, heartbeat.HeartbeatError) as error:
            _log.error("heartbeat_not_written", error=str(error))

    def remove(self) -> None:
        """Remove the file: jobs submitted from now on get no lease."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:  # job_submit.lua takes it for dead once its time is old
            _log.error("heartbeat_not_removed", error=str(error))


def owner_of(runtime_dir: Path) -> str:
    """Return what tells this daemon's leases from those of a daemon elsewhere.

    job_submit.lua reads one file of one machine, so only one daemon's jobs are leased. A new state
    folder changes nothing.
    """
    return heartbeat.owner_of(runtime_dir, socket.gethostname())


def _heartbeat(config: Config, owner: str, registered_epoch_s: int) -> heartbeat.Heartbeat:
    enforced = [name for name, one in config.partitions.items() if one.mode is Mode.ENFORCE]
    excepted = [name for name, one in config.partitions.items() if one.mode is not Mode.ENFORCE]
    by_default = config.mode is Mode.ENFORCE
    return heartbeat.Heartbeat(
        at_epoch_s=int(time.time()),
        lease_s=round(min(config.slurm.first_lease_s, config.slurm.lease_s)),
        enforce=(heartbeat.EVERY_PARTITION,) if by_default else tuple(enforced),
        excepted=tuple(excepted) if by_default else (),
        models=tuple(name.lower() for name in config.slurm.model_names),
        accounts=_opted_in(config.accounts),
        qos=_opted_in(config.qos),
        share_qos=_opted_in(config.sharing.qos) if config.sharing.enabled else (),
        owner=owner,
        registered_epoch_s=registered_epoch_s,
    )


def _opted_in(names: Sequence[str]) -> tuple[str, ...]:
    """Return accounts or QoS, in Slurm's lower case; () where they cannot be told.

    Then every job gets the first lease, which ends once roostd has seen the job; and on Slurm 22.05
    jobs opt in to share by their comment alone.
    """
    lower = tuple(map(str.lower, names))
    is_short = sum(len(name) + 1 for name in lower) <= _LONGEST_LIST_BYTES
    return lower if is_short and all(map(heartbeat.is_name, lower)) else ()
