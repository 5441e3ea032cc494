r"""slurm.conf and its like as text: bytes stay as they are, and `\` at an end continues below."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ENCODING, _ERRORS = "utf-8", "surrogateescape"  # a comment in Latin-1 is written back as it was
_CONTINUES = re.compile(r"\\\s*$")  # without the comment, which Slurm takes away first


@dataclass(frozen=True, slots=True)
class ConfText:
    """One line as Slurm reads it.

    Attributes:
        number: of its first line in the file.
        lines: of the file.
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
    for number, line in enumerate(text.splitlines(), start=1):
        lines.append(line)
        if not _CONTINUES.search(line.partition("#")[0]):
            yield _joined(number, lines)
            lines = []
    if lines:
        yield _joined(number, lines)


def _joined(last: int, lines: list[str]) -> ConfText:
    parts = [line.partition("#") for line in lines]
    text = "".join(_CONTINUES.sub("", words) for words, _, _ in parts)
    comments = [hash_ + comment for _, hash_, comment in parts if hash_]
    return ConfText(last - len(lines) + 1, tuple(lines), text, " ".join(comments))


def read_conf(path: Path) -> str:
    """Return a file's text.

    Raises:
        OSError: it cannot be read.
    """
    return path.read_text(encoding=_ENCODING, errors=_ERRORS)


def replace_conf(path: Path, text: str) -> None:
    """Put a text in the place of a file at once; the file keeps its mode."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding=_ENCODING, errors=_ERRORS)
    temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
    os.replace(temporary, path)
