"""Whether the user that roostd runs as can read a file, asked by another user, such as root."""

import grp
import os
import pwd
import re
import stat
from dataclasses import dataclass
from pathlib import Path

UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
UNIT = "roostd.service"


@dataclass(frozen=True, slots=True)
class Reader:
    """A user, as the permissions of files see it; access lists are not looked at."""

    name: str
    uid: int
    groups: frozenset[int]

    @classmethod
    def named(cls, name: str) -> "Reader":
        """Return a user of this machine.

        Raises:
            KeyError: there is no such user.
        """
        entry = pwd.getpwnam(name)
        return cls(name, entry.pw_uid, frozenset(os.getgrouplist(name, entry.pw_gid)))

    def fault(self, path: Path) -> str | None:
        """Return why the user cannot read a file; None where it can.

        Folders above the file count, with their modes; a file that is not there is a fault.
        """
        real = Path(os.path.realpath(path))
        for folder in reversed(real.parents):
            try:
                mode = folder.stat()
            except OSError as error:
                return f"{path}: {error.strerror}"
            if not self._may(mode, 0o1):
                return f"{path}: user {self.name} cannot enter {folder}; cure: chmod o+x {folder}"
        try:
            found = real.stat()
        except OSError as error:
            return f"{path}: {error.strerror}"
        if not stat.S_ISREG(found.st_mode):
            return f"{path}: no file"
        if not self._may(found, 0o4):
            owner = f"chgrp {self._group()} {path} && chmod g+r {path}"
            return f"{path}: user {self.name} cannot read it; cure: {owner}"
        return None

    def _may(self, found: os.stat_result, bit: int) -> bool:
        if self.uid == 0:
            return True
        if found.st_uid == self.uid:
            return bool(found.st_mode & bit << 6)
        if found.st_gid in self.groups:
            return bool(found.st_mode & bit << 3)
        return bool(found.st_mode & bit)

    def _group(self) -> str:
        try:
            return grp.getgrgid(pwd.getpwuid(self.uid).pw_gid).gr_name
        except KeyError:
            return self.name


def service_user(folders: tuple[str, ...] = UNIT_FOLDERS) -> str | None:
    """Return the user of roostd's unit, the last one that a unit or drop-in names; None: no unit.

    The files are read rather than systemd asked: a machine that is not booted is checked too.
    """
    user = None
    for folder in reversed(folders):
        unit = Path(folder) / UNIT
        for path in (unit, *sorted(unit.with_name(f"{UNIT}.d").glob("*.conf"))):
            try:
                text = path.read_text(encoding="utf-8")
            except OSError:
                continue
            found = re.findall(r"(?m)^User=(\S+)$", text)
            user = found[-1] if found else user
    return user
