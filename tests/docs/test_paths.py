"""Source files that pages, comments and docstrings name are where they say.

Not read: the design pages, which tell of the tree as it was at their date.
"""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "benchmarks", "cli", "daemon", "deploy", "engine", "formats", "probes", "simulator",
    "slurm_glue", "tests", "training",
)  # fmt: skip
NAMED = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w/-]+\.(?:py|sh|lua)\b")
CALLED = re.compile(r"(?m)(?:^\$ |^ {4,}|; |do )(benchmarks/\w+\.py)\b")
PLACEHOLDER = "NAME"  # of the recipes: the file that their reader is about to write


def texts() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    yield from (page for page in ROOT.glob("docs/**/*.md") if "design" not in page.parts)
    for folder in FOLDERS:
        yield from ROOT.glob(f"{folder}/**/*.py")


def test_named_files_exist() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in texts()
        if page.name != "CHANGELOG.md"
        for path in NAMED.findall(page.read_text(encoding="utf-8"))
        if PLACEHOLDER not in path and not (ROOT / path).exists()
    ]
    assert not missing, "\n".join(missing)


def test_commands_call_scripts_of_benchmarks_by_python() -> None:
    """A shell would read one as its own: they have no line that names Python."""
    called = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in texts()
        for path in CALLED.findall(page.read_text(encoding="utf-8"))
    ]
    assert not called, "\n".join(called)
