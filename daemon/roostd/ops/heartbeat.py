"""The heartbeat file: while it is fresh, job_submit.lua gives submitted jobs a lease."""

import socket
import time
from pathlib import Path

import structlog

from roost_slurm import heartbeat
from roostd.config.config import Config, Mode

_log = structlog.get_logger(__name__)


class HeartbeatWriter:
    """Writes the heartbeat file, and removes it.

    Args:
        runtime_dir: the folder of the file.
    """

    def __init__(self, runtime_dir: Path) -> None:
        self._path = runtime_dir / "heartbeat"
        self._owner = owner_of(runtime_dir)

    def write(self, config: Config) -> None:
        """Write the present time, the first lease, and the partitions whose jobs get one."""
        try:
            heartbeat.write(self._path, _heartbeat(config, self._owner))
        except (OSError, heartbeat.HeartbeatError) as error:
            _log.error("heartbeat_not_written", error=str(error))

    def remove(self) -> None:
        """Remove the file: jobs submitted from now on get no lease."""
        self._path.unlink(missing_ok=True)


def owner_of(runtime_dir: Path) -> str:
    """Return what tells this daemon's leases from those of a daemon elsewhere.

    job_submit.lua reads one file of one machine, so only one daemon's jobs are leased. A new state
    folder changes nothing.
    """
    return heartbeat.owner_of(runtime_dir, socket.gethostname())


def _heartbeat(config: Config, owner: str) -> heartbeat.Heartbeat:
    enforced = [name for name, one in config.partitions.items() if one.mode is Mode.ENFORCE]
    excepted = [name for name, one in config.partitions.items() if one.mode is not Mode.ENFORCE]
    by_default = config.mode is Mode.ENFORCE
    return heartbeat.Heartbeat(
        at_epoch_s=int(time.time()),
        lease_s=round(min(config.slurm.first_lease_s, config.slurm.lease_s)),
        enforce=(heartbeat.EVERY_PARTITION,) if by_default else tuple(enforced),
        excepted=tuple(excepted) if by_default else (),
        models=tuple(name.lower() for name in config.slurm.model_names),
        owner=owner,
    )
