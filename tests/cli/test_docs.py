"""The manual page names every command, option, exit code, schema and JSON key, and no others."""

import pkgutil
import re
from importlib import import_module
from pathlib import Path

import click
from tests.cli.conftest import Run

from roost_formats.report import document as report_document
from roostctl import documents
from roostctl.main import EXIT_CODES, EXIT_DAEMON_FAULT, EXIT_INTERRUPTED, cli

PAGE = (Path(__file__).parents[2] / "docs" / "roostctl.md").read_text()


def table_column(heading: str) -> list[str]:
    """First column of the table that begins with a heading."""
    rows = PAGE.partition(heading)[2].partition("\n\n")[0].splitlines()
    return [row.split("|")[1].strip() for row in rows if row.startswith("|")][1:]


def test_page_lists_the_commands() -> None:
    listed = {cell.strip("`").split()[0] for cell in table_column("| Command |")}
    assert listed == set(cli.commands)


def test_page_lists_the_exit_codes() -> None:
    codes = {0, 1, 2, *EXIT_CODES.values(), EXIT_DAEMON_FAULT, EXIT_INTERRUPTED}
    assert {int(cell) for cell in table_column("| Code |")} == codes


def test_page_names_every_json_key() -> None:
    names = [f"{documents.__name__}.{one.name}" for one in pkgutil.iter_modules(documents.__path__)]
    shapes = [
        shape
        for module in (*map(import_module, names), report_document)
        for name, shape in vars(module).items()
        if name.endswith("Document")
    ]
    keys = {key for shape in shapes for key in shape.__annotations__}
    assert keys - set(re.findall(r"`(\w+)`", PAGE)) == set()


def test_page_names_every_schema() -> None:
    listed = {cell.strip("`") for cell in table_column("| Schema |")}
    named = set(re.findall(r'"(roost\.\w+/\d+)"', _sources()))
    assert listed == named


def _sources() -> str:
    (folder,) = documents.__path__
    assert report_document.__file__ is not None
    paths = [*sorted(Path(folder).parent.rglob("*.py")), Path(report_document.__file__)]
    return "\n".join(path.read_text() for path in paths)


def test_every_command_helps_with_an_example(run: Run) -> None:
    for name, command in cli.commands.items():
        text = run(name, "--help").stdout
        assert "Example: " in text, name
        assert isinstance(command, click.Command)
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.opts[0] in text
                assert option.opts[0] in PAGE
