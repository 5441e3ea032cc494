"""The heartbeat: what job_submit.lua takes as the sign that the daemon lives."""

import time
from pathlib import Path

import structlog

from roost_slurm import heartbeat
from roostd.config.config import Config, Mode

_log = structlog.get_logger(__name__)


class Pulse:
    """Writes the heartbeat file, and takes it away.

    Args:
        runtime_dir: where it lies.
    """

    def __init__(self, runtime_dir: Path) -> None:
        self._path = runtime_dir / "heartbeat"

    def beat(self, config: Config) -> None:
        """Say that the daemon lives, and which partitions' jobs it wants leases for."""
        try:
            heartbeat.write(self._path, _heartbeat(config))
        except (OSError, heartbeat.HeartbeatError) as error:
            _log.error("heartbeat_not_written", error=str(error))

    def stop(self) -> None:
        """Take the heartbeat away: submissions are plain from now on."""
        self._path.unlink(missing_ok=True)


def _heartbeat(config: Config) -> heartbeat.Heartbeat:
    enforced = [name for name, one in config.partitions.items() if one.mode is Mode.ENFORCE]
    excepted = [name for name, one in config.partitions.items() if one.mode is not Mode.ENFORCE]
    by_default = config.mode is Mode.ENFORCE
    return heartbeat.Heartbeat(
        at_epoch_s=int(time.time()),
        lease_s=round(config.slurm.lease_s),
        enforce=(heartbeat.EVERY_PARTITION,) if by_default else tuple(enforced),
        excepted=tuple(excepted) if by_default else (),
        models=tuple(name.lower() for name in config.slurm.model_names),
    )
