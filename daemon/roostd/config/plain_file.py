"""Whether a path that an operator names is a file: a pipe or a device may be read without end."""

import os
import stat
from pathlib import Path

NO_FILE = "a pipe, a socket or a device; want a file"


def is_no_file(path: Path) -> bool:
    """Return whether a path is neither a file nor a folder, nor /dev/null.

    A reload that opened a pipe would stop the daemon until another program writes to it.

    Raises:
        OSError: there is nothing, or it cannot be seen.
    """
    mode = path.stat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return False
    return not path.samefile(os.devnull)
