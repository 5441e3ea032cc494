"""Pages, docstrings and comments use the field's words, and no pronoun where a job is meant.

Code in backticks and in blocks, and words in capitals, are left out: names of options, values and
columns keep their words.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (
    "benchmarks",
    "cli",
    "daemon",
    "deploy",
    "engine",
    "formats",
    "probes",
    "simulator",
    "slurm_glue",
    "tests",
    "training",
)
PAGES = ("*.md", "docs/**/*.md")
HERE = "tests/docs/test_words.py"

# Home-made word: what the field says. A word that is also a value of an option stands in backticks.
WORDS = {
    r"nobody|no ?one (?:waits|else|cares)": "name what there is none of: no job, no node, no user",
    r"somebody|someone|anybody|everybody": "name it: a job, a node, every user",
    r"who(?:m|so)?ever|whom": "the job that ..., the victim, the user who ...",
    r"(?:jobs?|nodes?|probes?|victims?|gangs?|groups?|daemons?|roostd|those),? who": "that, which",
    r"him|himself|he": "the user, the owner",
    r"room": "capacity, free GPUs; a job fits or does not fit",
    r"chances": "feasibility hint",
    r"(?:un)?book(?:s|ed|ing)?|ledger": "allocations; job table",
    r"(?:row ?set|rowset)s?": "node set",
    r"rebids?|bids? anew": "renews its lease, competes again",
    r"chooser": "scorer",
    r"spells?": "wait, interval",
    r"let(?:s|ting)? (?:it |them )?go": "release to Slurm; close",
    r"goes on|go on|went on|going on": "continues",
    r"hangs? on": "depends on",
    r"anew": "again",
    r"(?:an?|each|every|the (?:first|last|next)) looks?(?! at|-)": "poll",
    r"quiet(?:er|est)?(?! places?)": "idle, without telemetry; a quiet place: see the glossary",
}
ANY = re.compile(rf"\b(?:{'|'.join(WORDS)})\b")  # quick; case is folded before
PATTERNS = {re.compile(rf"\b(?:{word})\b", re.IGNORECASE): cure for word, cure in WORDS.items()}
CODE = re.compile(r"```.*?```|`[^`\n]*`|^ {4}[^\n]*$|https?://\S+", re.DOTALL | re.MULTILINE)


def prose_of_page(text: str) -> str:
    """Blank out code, so that lines keep their numbers."""
    return CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)


def prose_of_module(text: str) -> Iterator[tuple[int, str]]:
    """Yield comments, and the lines of docstrings, with their line numbers."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            string = node.body[0]
            lines = text.splitlines()[string.lineno - 1 : string.end_lineno]
            yield from enumerate(lines, string.lineno)


def home_made(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """Yield (line, word, what the field says)."""
    for number, line in lines:
        for pattern, cure in PATTERNS.items():
            for found in pattern.finditer(re.sub(r"`[^`]*`", "", line)):
                if not found[0].isupper():  # a column of a table that roostctl prints
                    yield number, found[0], cure


def problems(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if not ANY.search(text.lower()):
        return []
    if path.suffix == ".md":
        lines = enumerate(prose_of_page(text).splitlines(), 1)
        found = home_made(iter(lines))
    else:
        found = home_made(prose_of_module(text))
    name = path.relative_to(ROOT)
    return [f"{name}:{line}: {word!r}; say: {cure}" for line, word, cure in found]


FILES = {
    "pages": [page for pattern in PAGES for page in ROOT.glob(pattern)],
    **{folder: list((ROOT / folder).rglob("*.py")) for folder in SOURCES},
}


@pytest.mark.parametrize("part", FILES)
def test_prose_has_no_home_made_words(part: str) -> None:
    found = [problem for path in sorted(FILES[part]) for problem in problems(path)]
    assert not found, "\n".join(found)


def test_a_home_made_word_is_found_with_its_line_and_its_cure(tmp_path: Path) -> None:
    module = '"""A job.\n\n    Nobody has room, `nobody` is a value.\n"""\nx = 1  # whoever asks\n'
    page = "# Title\n\n    nobody\n\n```\nwhoever\n```\nThe engine lets go of it.\n"

    assert [(line, word) for line, word, _ in home_made(prose_of_module(module))] == [
        (5, "whoever"),
        (3, "Nobody"),
        (3, "room"),
    ]
    found = home_made(iter(enumerate(prose_of_page(page).splitlines(), 1)))
    assert [(line, word) for line, word, _ in found] == [(8, "lets go")]


def test_the_list_reaches_pages_and_modules() -> None:
    assert len(FILES["pages"]) > 60
    assert all(len(FILES[folder]) > 5 for folder in SOURCES)
