"""Reads YAML for configuration files: the line of every key is known, nothing is silently dropped.

Stricter than YAML 1.1 where that surprises: `off` and `yes` are words, not truth values, `1:30`
is no number, `060` is 60 and not octal, a key that stands twice is a problem, and there are no
aliases (they expand without bound).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import yaml

KeyPath: TypeAlias = tuple[str, ...]

MAX_BYTES = 1 << 20
# A configuration has four levels. Reading costs PyYAML the square of the depth: 12 s for 3,000.
MOST_LEVELS = 32


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a file; `line` counts from 1."""

    line: int
    text: str


@dataclass(slots=True)
class Tree:
    """The content of a file.

    Attributes:
        values: plain dicts, lists and scalars.
        lines: the line of each key; the root is the empty path.
        problems: of the file as YAML.
    """

    values: dict[str, object] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=lambda: {(): 1})
    problems: list[Problem] = field(default_factory=list)


# Scalars of other types, as !!binary and !!timestamp, are nothing that a setting may be.
_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null")}


class _Loader(yaml.SafeLoader):
    """SafeLoader with the scalars of YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(?:true|false)$"), list("tf"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(?:~|null|)$"), ["~", "n", ""])
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"[-+]?[0-9]+$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)


def _decimal(loader: _Loader, node: yaml.ScalarNode) -> int:
    """Return the number that the digits stand for: SafeLoader reads 060 as octal, which is 48."""
    return int(loader.construct_scalar(node))


_Loader.add_constructor("tag:yaml.org,2002:int", _decimal)


def read_tree(text: str) -> Tree:
    """Read one YAML document that must be a mapping. Never raises: see Tree.problems."""
    tree = Tree()
    if len(text) > MAX_BYTES:
        tree.problems.append(Problem(1, f"larger than {MAX_BYTES >> 20} MiB"))
        return tree
    try:
        tree.problems += _refused_events(text)
        if tree.problems:
            return tree
        root = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as error:
        tree.problems.append(_syntax_problem(error))
        return tree
    if root is None:
        return tree
    if not isinstance(root, yaml.MappingNode):
        tree.problems.append(Problem(_line(root), "want keys with values at the top level"))
        return tree
    tree.values = _mapping(root, (), tree)
    return tree


def _refused_events(text: str) -> Iterator[Problem]:
    """Yield what would cost too much to build: aliases, and the first nesting that is too deep.

    Raises:
        yaml.YAMLError: it is not YAML.
    """
    level = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            yield Problem(line, f"alias *{event.anchor}: write the value out")
        level += isinstance(event, yaml.CollectionStartEvent)
        level -= isinstance(event, yaml.CollectionEndEvent)
        if level > MOST_LEVELS:
            yield Problem(line, f"not YAML: nested deeper than {MOST_LEVELS} levels")
            return


def read_scalar(text: str) -> object:
    """Return a text's value as in a file: "15" is a number, "off" a word."""
    tree = read_tree(f"value: {text}")
    return text if tree.problems else tree.values["value"]


def _mapping(node: yaml.MappingNode, path: KeyPath, tree: Tree) -> dict[str, object]:
    values: dict[str, object] = {}
    for key_node, value_node in node.value:
        line = _line(key_node)
        if not isinstance(key_node, yaml.ScalarNode):
            tree.problems.append(Problem(line, f"{_dotted(path)}want a plain word as a key"))
            continue
        key = str(key_node.value)
        here = (*path, key)
        if here in tree.lines:
            first = tree.lines[here]
            tree.problems.append(
                Problem(line, f"{'.'.join(here)}: stands here and in line {first}")
            )
            continue
        tree.lines[here] = line
        values[key] = _value(value_node, here, tree)
    return values


def _value(node: yaml.Node, path: KeyPath, tree: Tree) -> object:
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, tree)
    if isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            tree.lines[(*path, str(position))] = _line(item)
        return [
            _value(item, (*path, str(position)), tree) for position, item in enumerate(node.value)
        ]
    if node.tag not in _TAGS:
        tree.problems.append(Problem(_line(node), f"{'.'.join(path)}: tag {node.tag} is unknown"))
        return None
    try:
        scalar: object = _Loader("").construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        tree.problems.append(Problem(_line(node), f"{'.'.join(path)}: {_words(error)}"))
        return None
    return scalar


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _dotted(path: KeyPath) -> str:
    return f"{'.'.join(path)}: " if path else ""


def _syntax_problem(error: Exception) -> Problem:
    mark = getattr(error, "problem_mark", None)
    return Problem(mark.line + 1 if mark else 1, f"not YAML: {_words(error)}")


def _words(error: Exception) -> str:
    """Return what is wrong, without the excerpt of the file that PyYAML adds."""
    text = getattr(error, "problem", None) or str(error) or "nested too deeply"
    return str(text).partition("\n")[0]


def lookup(values: Mapping[str, object], path: KeyPath) -> object:
    """Return the value at a path.

    Raises:
        KeyError: the path does not exist.
    """
    here: object = values
    for key in path:
        if not isinstance(here, Mapping):
            raise KeyError(".".join(path))
        here = here[key]
    return here
