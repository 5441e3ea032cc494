"""What a recipe of docs/recipes says: its files and its test."""

import re
from pathlib import Path

from tests.docs.module_map import SOURCE_ROOTS

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "recipes"


def files_of(name: str) -> list[str]:
    """The paths in the table under "Files", from the root of the repository."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    table = text.partition("## Files\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([\w./-]+)` \|", table, re.MULTILINE)


def named_tests(name: str) -> list[str]:
    """The tests that the recipe names in its last paragraph."""
    last = (FOLDER / name).read_text(encoding="utf-8").partition("\nTest: ")[2]
    return re.findall(r"`(tests/[\w./-]+)`", last)


def modules_naming(pattern: str) -> set[str]:
    """The modules outside tests that have a match of a regular expression, from the root."""
    modules = [module for folder in SOURCE_ROOTS for module in folder.rglob("*.py")]
    return {
        module.relative_to(ROOT).as_posix()
        for module in modules
        if re.search(pattern, module.read_text(encoding="utf-8"))
    }
