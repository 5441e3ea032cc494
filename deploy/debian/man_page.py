"""Print the man page of one of Roost's programs, made from what its --help says."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path


def main(program: str, section: str) -> None:
    """Write the page to stdout."""
    text, release = help_of(program), version("roost")
    summary, _, _ = first_words(text).partition(". ")
    print(f'.TH {program.upper()} {section} "" "roost {release}" "Roost"')
    print(f".SH NAME\n{escaped(program)} \\- {escaped(summary.rstrip('.'))}")
    print(".SH DESCRIPTION")
    print(verbatim(text))
    for command in commands(text):
        print(f".SS {escaped(program)} {escaped(command)}")
        print(verbatim(help_of(program, command)))
    print(".SH SEE ALSO\n/usr/share/doc/roost/docs")


def help_of(program: str, *words: str) -> str:
    """Return what the program says with --help."""
    return subprocess.run(
        [str(Path(sys.prefix) / "bin" / program), *words, "--help"],
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "78", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def first_words(text: str) -> str:
    """Return the first paragraph after the usage, in one line."""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    described = [part for part in paragraphs if not part.lower().startswith("usage:")]
    return described[0].removeprefix("`").split(": ", 1)[-1] if described else ""


def commands(text: str) -> Iterator[str]:
    """Yield the commands that the help lists, of click and of argparse."""
    inside = False
    for line in text.splitlines():
        if line.strip() in ("Commands:", "COMMAND", "positional arguments:"):
            inside = True
            continue
        if not line.startswith(" "):  # a blank line ends the list
            inside = False
        word = line.split()[0] if line.split() else ""
        indent = len(line) - len(line.lstrip())
        if inside and indent in (2, 4) and word.replace("-", "").isalpha() and word.islower():
            yield word


def verbatim(text: str) -> str:
    """Preformatted text for roff."""
    return f".nf\n{escaped(text.rstrip())}\n.fi"


def escaped(text: str) -> str:
    """Text without a meaning for roff."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").split("\n")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in lines)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
