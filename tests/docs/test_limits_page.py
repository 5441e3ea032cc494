"""docs/limits.md has every limit of the modules that it names, with its value, and no others."""

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
_TABLE = re.compile(r"^\| `([\w.]+)` \| Value \| Why \|\n\|---\|---\|---\|\n((?:\|.*\n)+)", re.M)
_ROW = re.compile(r"^\| `(\w+)` \| (\S+) \| (.+) \|$", re.M)
TABLES = {
    module: {name: value for name, value, _ in _ROW.findall(rows)}
    for module, rows in _TABLE.findall(PAGE)
}


@pytest.mark.parametrize("module", TABLES)
def test_the_page_has_the_limits_of_a_module(module: str) -> None:
    limits = {
        name: str(value)
        for name, value in vars(import_module(module)).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, int | float)
    }
    limits.pop("RESERVED_FILE_COUNT", None)  # of roostd.ops.files
    assert TABLES[module] == limits


def test_the_page_names_the_modules_of_limits() -> None:
    found = {path for path in TABLES if path.endswith("limits")}
    assert found == {"roost_slurm.text.limits", "roostd.slurm.limits", "roostd.rpc.access.limits"}
