"""Files that ship beside the package: the Lua script and the hook script."""

import sys
from pathlib import Path

_FOLDERS = (
    Path(__file__).resolve().parent.parent,  # a checkout
    Path(__file__).resolve().parents[2] / "daemon",
    Path(__file__).resolve().parents[2] / "probes",
    Path(sys.prefix) / "share" / "roost",  # an installed wheel
)


class ShippedFileMissing(Exception):
    """A file of the distribution is not where it belongs."""


def read_shipped(name: str) -> str:
    """Return the text of a file, such as "lua/job_submit.lua".

    Raises:
        ShippedFileMissing: neither a checkout nor an installation has it.
    """
    for folder in _FOLDERS:
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="ascii")
    places = " nor in ".join(map(str, _FOLDERS))
    raise ShippedFileMissing(f"no {name} in {places}; cure: install roost again")
