"""The documentation site: every page is in it, and the commands that it names exist."""

import re
from pathlib import Path

import pytest

from roostctl.main import cli

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md"))
GUIDES = ("index.md", "users.md", "troubleshooting.md")


def listed() -> set[str]:
    """The pages of all tables of contents."""
    found = set[str]()
    for block in re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(), re.S):
        names = [line for line in block.splitlines() if line and not line.startswith(":")]
        for name in names:
            pages = DOCS.glob(f"{name}.md")
            found |= {path.relative_to(DOCS).with_suffix("").as_posix() for path in pages}
    return found


def test_every_page_is_in_the_site() -> None:
    assert listed() == set(PAGES) - {"index"}


@pytest.mark.parametrize("page", GUIDES)
def test_the_commands_that_a_guide_names_exist(page: str) -> None:
    text = (DOCS / page).read_text()
    named = set(re.findall(r"\broostctl (?:--\S+ )*([a-z]+)\b", text))
    assert named
    assert named <= set(cli.commands)


@pytest.mark.parametrize("page", ["index.md", "operations.md"])
def test_the_pictures_of_a_page_are_there_with_a_text_for_those_who_do_not_see(page: str) -> None:
    pictures = re.findall(r"!\[([^]]*)\]\(([^)]+)\)", (DOCS / page).read_text())
    assert pictures
    for text, target in pictures:
        assert (DOCS / target).read_bytes().startswith(b"\x89PNG")
        assert len(text) > 40


def test_the_site_loads_nothing_from_elsewhere() -> None:
    settings = (DOCS / "conf.py").read_text()
    assert "http" not in settings
