"""The configuration as read from flags, environment and file, with the source of each value.

The whole configuration is checked before anything starts, and all problems come in one ConfigError.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pydantic import BaseModel, ValidationError

from roost_engine.domain.errors import ConfigError
from roost_formats.yaml.problems import describe
from roost_formats.yaml.tree import KeyPath, Tree, lookup, read_scalar, read_tree
from roostd.config.config import Config
from roostd.config.plain_file import NO_FILE, is_no_file
from roostd.config.values import in_words

DEFAULT_FILE = Path("/etc/roost/roostd.yaml")
ENVIRONMENT_PREFIX = "ROOST_"

Source: TypeAlias = str  # "default", "roostd.yaml:12", "ROOST_MODE", "--set mode"


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A checked configuration, and the source of each value that is not a default."""

    config: Config
    sources: Mapping[KeyPath, Source]

    def rows(self) -> Iterator[tuple[str, str, Source]]:
        """Yield (key, value, source) of every setting, in the order of the models.

        A setting that is null because the stack says it has the stack's value.
        """
        from_stack = self.config.choice.from_stack()
        for path, value in leaves(self.config):
            given = value, self.sources.get(path, "default")
            shown, source = from_stack.get(path, given)
            yield ".".join(path), in_words(shown), source


def leaves(section: BaseModel, path: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Yield every setting with its path, depth first."""
    for name in type(section).model_fields:
        value, here = getattr(section, name), (*path, name)
        if isinstance(value, BaseModel):
            yield from leaves(value, here)
        elif isinstance(value, dict) and value:
            for key, item in value.items():
                yield from leaves(item, (*here, key))
        else:
            yield here, value


def load_config(
    file: Path | None,
    environ: Mapping[str, str] = os.environ,
    flags: Sequence[str] = (),
) -> LoadedConfig:
    """Read and check the daemon's configuration: flags > environment > file > defaults.

    Args:
        file: the YAML file; None: only environment and flags.
        environ: variables such as ROOST_SLURM_LEASE_S.
        flags: settings from the command line, "slurm.lease_s=30".

    Raises:
        ConfigError: with every problem, each as "FILE:LINE: KEY: what is wrong, and what to do".
    """
    tree = _read_file(file) if file else Tree()
    whole = f"{file}:1" if file else "configuration"
    problems = [f"{file}:{problem.line}: {problem.text}" for problem in tree.problems]
    if problems and not tree.values:
        raise ConfigError(problems)
    sources = {path: f"{file}:{line}" for path, line in tree.lines.items() if path}
    for path, text, source in [*_from_environment(environ), *_from_flags(flags, problems)]:
        _put(tree.values, path, read_scalar(text))
        sources[path] = source
    hidden = [
        f"{_source_of(path, sources, file)}: {'.'.join(path)}: has a character that cannot be"
        f" printed, U+{ord(character):04X}; remove it"
        for path, character in _unprintable(tree.values)
    ]
    if hidden:
        raise ConfigError([*problems, *hidden])
    try:
        config = Config.model_validate(tree.values)
    except ValidationError as error:
        raise ConfigError([*problems, *describe(error, Config, sources, whole)]) from error
    for path, text in config.choice.problems():
        problems.append(f"{_source_of(path, sources, file)}: {'.'.join(path)}: {text}")
    if problems:
        raise ConfigError(problems)
    return LoadedConfig(config, sources)


def _unprintable(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield the first such character of each text: it would hide in a log, a name or a path."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _unprintable(key, (*path, key))
            yield from _unprintable(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _unprintable(item, (*path, str(position)))
    elif isinstance(value, str) and not value.isprintable():
        yield path, next(character for character in value if not character.isprintable())


def _source_of(path: KeyPath, sources: Mapping[KeyPath, Source], file: Path | None) -> Source:
    """Return where a setting, or else the section around it, was given."""
    known = (
        sources[path[:length]] for length in range(len(path), 0, -1) if path[:length] in sources
    )
    return next(known, f"{file}:1")


def _read_file(file: Path) -> Tree:
    try:
        if is_no_file(file):
            raise ConfigError([f"{file}: {NO_FILE}"])
        return read_tree(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"{file}: cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{file}: not UTF-8 at byte {error.start}"]) from error


def environment_name(path: KeyPath) -> str:
    """Return the variable that overrides a setting: ROOST_SLURM_LEASE_S for slurm.lease_s."""
    return ENVIRONMENT_PREFIX + "_".join(path).upper()


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[KeyPath, str, Source]]:
    for path, _ in leaves(Config()):
        name = environment_name(path)
        if name in environ:
            yield path, environ[name], name


def _from_flags(flags: Sequence[str], problems: list[str]) -> Iterator[tuple[KeyPath, str, Source]]:
    for flag in flags:
        key, equals, text = flag.partition("=")
        if equals:
            yield tuple(key.split(".")), text, f"--set {key}"
        else:
            problems.append(f"--set {flag}: want KEY=VALUE")


def _put(values: dict[str, object], path: KeyPath, value: object) -> None:
    """Set a value, and make the sections above it."""
    try:
        parent = lookup(values, path[:-1])
    except KeyError:
        _put(values, path[:-1], {})
        parent = lookup(values, path[:-1])
    if not isinstance(parent, dict):
        _put(values, path[:-1], {})
        parent = lookup(values, path[:-1])
    assert isinstance(parent, dict)
    parent[path[-1]] = value
