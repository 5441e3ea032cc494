"""Running the demonstration again as root, where sudo allows that without a question."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

_SUDO_PATIENCE_S = 10.0
# sudo drops most of the environment; of the rest the demonstration needs these.
_KEPT = ("PATH", "PYTHONPATH", "TMPDIR", "TERM", "NO_COLOR", "COLUMNS", "PYTHONUNBUFFERED")


def run_as_root(announce: Callable[[], None]) -> None:
    """Replace this process by the same program under sudo; return where sudo would ask or refuse.

    Args:
        announce: called just before, once it is certain.
    """
    sudo = shutil.which("sudo")
    if sudo is None or not _is_allowed(sudo):
        return
    announce()
    sys.stdout.flush()
    argv = root_argv(sudo, sys.executable, sys.argv[1:], os.environ)
    os.execv(sudo, argv)


def root_argv(
    sudo: str, python: str, options: Sequence[str], environ: Mapping[str, str]
) -> list[str]:
    """Return the command that runs the demonstration as root.

    It cannot end in a loop: root is never told to run again. Compiled modules are not written, as
    they would belong to root in the user's folders.
    """
    kept = [f"{name}={environ[name]}" for name in _KEPT if name in environ]
    set_by_us = [*kept, "PYTHONDONTWRITEBYTECODE=1"]
    return [sudo, "-n", "env", *set_by_us, python, "-m", "roost_demo.start", "--no-sudo", *options]


def _is_allowed(sudo: str) -> bool:
    try:
        done = subprocess.run(
            [sudo, "-n", "true"], capture_output=True, timeout=_SUDO_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
