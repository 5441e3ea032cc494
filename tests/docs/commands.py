"""The commands in the pages: blocks of code that a reader may copy, and what each is marked as.

A block is run by `test_commands.py` unless a comment right before it says who else runs it, or why
no test can:

    <!-- run by: tests/e2e/test_compose.py -->
    <!-- test: shadow -->                     of docs/install.md: run by tests/e2e/test_packages.py
    <!-- not run: the public traces -->       one of REASONS
    <!-- exits with: 2 -->                    is run

`<!-- not run on this page: hours -->` marks all blocks of a page.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
REASONS = (
    "root on a production cluster",
    "a real GPU",
    "hours",
    "the public traces",
    "another machine",
)
PROGRAMS = (
    *("roostctl", "roostd", "roost-probe", "roost-progress"),
    *("roost-slurm", "roost-sim", "roost-train"),
)
_INDENTED_PROGRAMS = (*PROGRAMS, "sbatch", "squeue", "scontrol", "sacctmgr")

_FENCED = re.compile(r"(?ms)^((?:<!--[^\n]*-->\n)*)```(console|bash|sh)\n(.*?)^```")
_INDENTED = re.compile(r"(?m)^((?:<!--[^\n]*-->\n+)*)((?:^ {4}[^\n]*\n)+)")
_MARK = re.compile(r"<!-- (run by|test|not run|exits with): (.*?) -->")
_PAGE_MARK = re.compile(r"<!-- not run on this page: (.*?) -->")


@dataclass(frozen=True, slots=True)
class Block:
    """Commands that stand together on a page.

    Attributes:
        where: page and line.
        script: for bash.
        marks: what the comments before it say, by their word.
    """

    where: str
    script: str
    marks: dict[str, str]

    @property
    def is_for_the_walker(self) -> bool:
        """Whether no comment says what else runs it, or why no test can."""
        return not {"run by", "test", "not run"} & self.marks.keys()


def blocks() -> Iterator[Block]:
    """Yield the blocks of all pages."""
    for page in PAGES:
        yield from blocks_of(page.relative_to(ROOT).as_posix(), page.read_text())


def blocks_of(name: str, text: str) -> Iterator[Block]:
    """Yield the blocks of a page."""
    found = {
        match.start(): (match[1], match[3] if match[2] != "console" else _typed(match[3]))
        for match in _FENCED.finditer(text)
    }
    fenced = [(match.start(), match.end()) for match in re.finditer(r"(?ms)^```.*?^```", text)]
    for match in _INDENTED.finditer(text):
        is_fenced = any(begin <= match.start(2) < end for begin, end in fenced)
        lines = re.sub(r"(?m)^ {4}", "", match[2])
        script = _typed(lines) if lines.startswith("$ ") else lines
        first_line = script.partition("\n")[0]
        is_synopsis = "[-" in first_line or first_line.startswith("roostd  ")  # what it prints
        if not is_fenced and not is_synopsis and script.split(maxsplit=1)[0] in _INDENTED_PROGRAMS:
            found[match.start()] = match[1], script
    page_mark = _PAGE_MARK.search(text)
    for start, (comments, script) in sorted(found.items()):
        marks = dict(_MARK.findall(comments))
        if page_mark is not None and not marks:
            marks = {"not run": page_mark[1]}
        yield Block(f"{name}:{text[:start].count(chr(10)) + 1}", script, marks)


def _typed(text: str) -> str:
    """Return what is typed in a block with prompts: without these, and without what is printed."""
    prompt = re.compile(r"^\$ " if re.search(r"(?m)^\$ ", text) else r"^(?:#|[\w-]+#) ")
    lines, goes_on, is_loop = list[str](), False, False
    for line in text.splitlines():
        match = prompt.match(line)
        if match is None and not goes_on and not is_loop:
            continue
        lines.append(line[match.end() :] if match else line)
        goes_on = line.endswith("\\")
        is_loop = not line.strip().startswith("done") and (
            is_loop or (lines[-1].startswith("for ") and "done" not in line)
        )
    return "\n".join(lines) + "\n"


def calls(script: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each call of a program of Roost's in a script: its name and its words."""
    joined = script.replace("\\\n", " ")
    names = "|".join(PROGRAMS)
    for match in re.finditer(
        rf"(?<![\w./-])(?:/opt/roost/bin/)?({names})\b([^\n|;&<>)`]*)", joined
    ):
        words = re.sub(r"\s+#.*", "", match[2]).split()
        yield match[1], [word.strip("'\"[]") for word in words]
