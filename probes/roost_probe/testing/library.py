"""Compiles the fake libnvidia-ml.so.1."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from roost_probe.testing.errors import DescriptionError

SONAME = "libnvidia-ml.so.1"
LIBRARY_FOLDER = "ROOST_FAKE_NVML_DIR"  # names a folder that many processes share: compiled once
_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")


def build_library(folder: Path, omit: Sequence[str] = ()) -> Path:
    """Compile the fake driver into `folder`, unless the same one is there already.

    Args:
        folder: where libnvidia-ml.so.1 goes; put it into LD_LIBRARY_PATH.
        omit: exported functions to leave out, as an old driver lacks them.

    Returns:
        The library's path.

    Raises:
        DescriptionError: no C compiler, or it failed.
    """
    source = (resources.files("roost_probe.testing") / "fake_nvml.c").read_bytes()
    flags = [*_FLAGS, f"-Wl,-soname,{SONAME}", *(f"-D{name}=omitted_{name}" for name in omit)]
    stamp = hashlib.sha256(source + " ".join(flags).encode()).hexdigest()
    library, stamp_file = folder / SONAME, folder / f".{SONAME}.sha256"
    if library.exists() and stamp_file.exists() and stamp_file.read_text() == stamp:
        return library
    folder.mkdir(parents=True, exist_ok=True)
    _compile(source, flags, library)
    stamp_file.write_text(stamp)
    return library


def find_compiler() -> str | None:
    """Return the C compiler: $CC, gcc or cc."""
    return next(
        (
            found
            for name in (os.environ.get("CC"), "gcc", "cc")
            if name and (found := shutil.which(name))
        ),
        None,
    )


def _compile(source: bytes, flags: Sequence[str], library: Path) -> None:
    compiler = find_compiler()
    if compiler is None:
        raise DescriptionError("no C compiler; install gcc to build the fake NVML driver")
    # A running probe may have the old library mapped: write beside it and rename.
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        made = Path(scratch) / SONAME
        done = subprocess.run(
            [compiler, "-x", "c", "-", *flags, "-o", str(made)],
            input=source,
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            raise DescriptionError(f"{compiler} failed: {done.stderr.decode().strip()}")
        made.replace(library)
