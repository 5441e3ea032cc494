"""The settings that a reload may change, and those that need a restart."""

from roost_engine.domain.errors import ConfigError
from roostd.config.config import Config

# Open ports, open files and the adapter's command lines do not change while the daemon runs.
_NEEDS_RESTART = (
    "listen",
    "roles.enabled",
    "page",
    "paths",
    "slurm.conf",
    "slurm.bin_dir",
    "slurm.command_timeout_s",
    "slurm.concurrent_pin_count",
    "journal",
)


def check_unchanged(old: Config, new: Config) -> None:
    """Check that a reload changes no setting that needs a restart.

    Raises:
        ConfigError: it changes some; the text names every such key.
    """
    problems = []
    for key in _NEEDS_RESTART:
        before, after = (_part(config, key) for config in (old, new))
        if before != after:
            problems.append(f"{key}: changed; restart roostd for it to take effect")
    if problems:
        raise ConfigError(problems)


def _part(config: Config, key: str) -> object:
    part: object = config
    for name in key.split("."):
        part = getattr(part, name)
    return part
