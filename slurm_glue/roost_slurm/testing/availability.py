"""Whether a throw-away Slurm cluster can run on this machine, and what to install if not."""

import os
import pwd
import shutil

from roost_slurm.testing import accounting

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sinfo", "sbatch", "scontrol", "setpriv")
_CURE = (
    "apt-get install --no-install-recommends slurmctld slurmd slurm-client"
    " slurm-wlm-basic-plugins munge"
)


class LocalSlurmUnavailable(Exception):
    """This machine cannot run a throw-away cluster; says why, and the cure."""


class RootNeeded(LocalSlurmUnavailable):
    """All is there, and the user is not root."""


def check_available(*, with_accounting: bool = False) -> None:
    """Raise LocalSlurmUnavailable unless a cluster can be started here."""
    programs, users, cure = [*_PROGRAMS], ["slurm", "munge"], _CURE
    if with_accounting:
        programs += accounting.PROGRAMS
        users += accounting.USERS
        cure = " ".join((cure, *accounting.PACKAGES))
    missing = [name for name in programs if shutil.which(name, path=SEARCH_PATH) is None]
    if missing:
        raise LocalSlurmUnavailable(f"{', '.join(missing)} not found; cure: {cure}")
    for user in users:
        try:
            pwd.getpwnam(user)
        except KeyError as error:
            raise LocalSlurmUnavailable(f"no user {user!r}; cure: {cure}") from error
    if os.geteuid() != 0:
        raise RootNeeded("slurmd and device files need root; cure: run as root")
