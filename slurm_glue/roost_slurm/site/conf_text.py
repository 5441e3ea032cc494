r"""slurm.conf and its like as text: bytes stay as they are, and `\` at an end continues below."""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_ENCODING, _ERRORS = "utf-8", "surrogateescape"  # a comment in Latin-1 is written back as it was
_CONTINUES = re.compile(r"\\\s*$")  # without the comment, which Slurm takes away first
_INCLUDE = re.compile(r"(?i)\s*include\s+(\S+)")
_CLUSTER = re.compile(r"(?i)(?:^|\s)ClusterName\s*=\s*(\S+)")
_FETCHED_INTO = Path("/run/slurm/conf")  # of slurmd a link to its conf-cache, of sackd a folder
_DEEPEST_INCLUDE = 8


@dataclass(frozen=True, slots=True)
class ConfText:
    """One line as Slurm reads it.

    Attributes:
        number: of its first line in the file.
        lines: of the file, one that ends with CR LF with its CR.
        text: all of them as one, without the comment.
        comment: those of all of them, with their `#`; "" for none.
    """

    number: int
    lines: tuple[str, ...]
    text: str
    comment: str


def conf_lines(text: str) -> Iterator[ConfText]:
    """Yield the lines of a file as Slurm reads them."""
    lines: list[str] = []
    number = 0
    # For Slurm, and so here, only a line feed ends a line: no form feed, no U+2028 in a comment.
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), start=1):
        lines.append(line)
        if not _CONTINUES.search(line.partition("#")[0]):
            yield _joined(number, lines)
            lines = []
    if lines:
        yield _joined(number, lines)


def _joined(last: int, lines: list[str]) -> ConfText:
    parts = [line.removesuffix("\r").partition("#") for line in lines]
    text = "".join(_CONTINUES.sub("", words) for words, _, _ in parts)
    comments = [hash_ + comment for _, hash_, comment in parts if hash_]
    return ConfText(last - len(lines) + 1, tuple(lines), text, " ".join(comments))


def all_lines(
    path: Path, version: Callable[[Path], Path] = lambda path: path
) -> Iterator[tuple[Path, ConfText]]:
    """Yield the lines of a slurm.conf and, in its place, of each file that it includes.

    Included files that cannot be read are left out, and so is Roost's own.

    Args:
        path: slurm.conf.
        version: where the text of each file is read, as a backup of it.

    Yields:
        The file that has the line, and the line.

    Raises:
        OSError: slurm.conf cannot be read.
    """
    cluster = [""]
    yield from _lines_of(path, path.parent, version, cluster, _DEEPEST_INCLUDE)


def _lines_of(
    path: Path, folder: Path, version: Callable[[Path], Path], cluster: list[str], depth: int
) -> Iterator[tuple[Path, ConfText]]:
    for line in conf_lines(read_conf(version(path))):
        if match := _CLUSTER.search(line.text):
            cluster[0] = match[1].strip('"')
        match = _INCLUDE.match(line.text)
        if match is None:
            yield path, line
            continue
        included = folder / (match[1].replace("%c", cluster[0]) if cluster[0] else match[1])
        if depth and included.name != "roost.conf":
            with contextlib.suppress(OSError):
                yield from _lines_of(included, folder, version, cluster, depth - 1)


def fetched_copy(folder: Path) -> str:
    """Say that slurmd or sackd fetched a folder's files in configless mode; "" where not."""
    real = folder.resolve()
    if real.name != "conf-cache" and _FETCHED_INTO not in (folder, real):
        return ""
    return (
        f"{folder}: a copy of the controller's files, which slurmd or sackd replaces; cure: run"
        " this on the controller (docs/install.md, Configless Slurm)"
    )


def read_conf(path: Path) -> str:
    """Return a file's text.

    Raises:
        OSError: it cannot be read.
    """
    return path.read_bytes().decode(_ENCODING, _ERRORS)


def replace_conf(path: Path, text: str) -> None:
    """Put a text in the place of a file at once; the file keeps its mode and its owner.

    Where the path is a symbolic link, the file that it leads to is replaced, and the link stays.

    Raises:
        OSError: the file cannot be written.
    """
    path = written_at(path)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding=_ENCODING, errors=_ERRORS, newline="")
    if path.exists():
        before, new = path.stat(), temporary.stat()
        if (before.st_uid, before.st_gid) != (new.st_uid, new.st_gid):
            os.chown(temporary, before.st_uid, before.st_gid)
        temporary.chmod(before.st_mode & 0o777)
    else:
        temporary.chmod(0o644)
    os.replace(temporary, path)


def written_at(path: Path) -> Path:
    """Return where a file is to be replaced: where a link leads to another file, that file."""
    return path.resolve() if path.is_symlink() and path.is_file() else path
