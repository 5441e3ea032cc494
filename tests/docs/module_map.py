"""The tables of docs/architecture.md: packages and modules, made of contracts and docstrings.

The rows are the layers of a contract of import-linter, top layer first. What a row may import
follows from the layers and from the contracts that forbid something. What it does is the first
line of its docstring.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
MARK = re.compile(r"<!-- table: ([\w.]+) -->\n(.*?)<!-- end -->\n", re.DOTALL)
HEAD = "| {} | What lives there | May import |\n|---|---|---|\n"

_PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS: Sequence[dict[str, Any]] = _PYPROJECT["tool"]["importlinter"]["contracts"]
SOURCE_ROOTS = [ROOT / folder for folder in _PYPROJECT["tool"]["ruff"]["src"]]
# Of the one package without a docstring: it holds nothing that is written by hand in Python.
GENERATED = "Protobuf messages and gRPC services, with the generated code"


@dataclass(frozen=True, slots=True)
class Row:
    """One package or module of a layers contract.

    Attributes:
        name: with the container: "roostd.app".
        imports: rows of the same table that it may import, top layer first.
        below: every row under it, neighbours in its own layer included.
    """

    name: str
    imports: tuple[str, ...]
    below: tuple[str, ...]


def layers_of(container: str) -> list[list[str]]:
    """Return the layers inside a package, top first; "" is the contract between packages."""
    for contract in CONTRACTS:
        if contract["type"] == "layers" and contract.get("containers", [""]) == [container]:
            prefix = f"{container}." if container else ""
            return [
                [prefix + name.strip() for name in re.split(r"[|:]", layer)]
                for layer in contract["layers"]
            ]
    raise LookupError(f"no layers contract for {container!r}")


def rows(container: str) -> Iterator[Row]:
    """Yield the rows of a table."""
    layers = layers_of(container)
    for position, layer in enumerate(layers):
        lower = [name for names in layers[position + 1 :] for name in names]
        for place, name in enumerate(layer, 1):
            allowed = tuple(other for other in lower if other not in _forbidden(name))
            yield Row(name, allowed, (*layer[place:], *lower))


def _forbidden(name: str) -> set[str]:
    return {
        module
        for contract in CONTRACTS
        if contract["type"] == "forbidden" and name in contract["source_modules"]
        for module in contract["forbidden_modules"]
    }


def first_line(module: str) -> str:
    """Return the first line of a module's or package's docstring, without its full stop."""
    path = Path(*module.split("."))
    for source_root in SOURCE_ROOTS:
        for file in (source_root / path / "__init__.py", (source_root / path).with_suffix(".py")):
            if file.exists():
                text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
                return text.partition("\n")[0].removesuffix(".")
    raise LookupError(f"no module {module}")


def rendered(container: str) -> str:
    """Return a table as the page has it."""
    heading = "Package" if not container else f"In `{container}`"
    return HEAD.format(heading) + "".join(
        f"| `{row.name.removeprefix(f'{container}.')}` | {first_line(row.name) or GENERATED} |"
        f" {_imports(row, container)} |\n"
        for row in rows(container)
    )


def _imports(row: Row, container: str) -> str:
    missing = [name for name in row.below if name not in row.imports]
    if not row.imports:
        return "none of them"
    if not missing:
        return "every row below" if len(row.imports) > 1 else _names(row.imports, container)
    listed = _names(row.imports, container)
    rest = f"every row below but {_names(missing, container)}"
    return listed if len(row.imports) <= len(missing) else rest


def _names(names: Sequence[str], container: str) -> str:
    return ", ".join(f"`{name.removeprefix(f'{container}.')}`" for name in names)


def updated(page: str) -> str:
    """Return the page with every table made new."""

    def table(found: re.Match[str]) -> str:
        container = "" if found[1] == "packages" else found[1]
        return f"<!-- table: {found[1]} -->\n{rendered(container)}<!-- end -->\n"

    return MARK.sub(table, page)
