"""Describes the problems of a configuration: each with its line and the cure."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_WANTED = {
    "bool_type": "true or false",
    "dict_type": "keys with values",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "a whole number",
    "model_type": "keys with values",
    "path_type": "a path",
    "string_type": "text",
    "tuple_type": "a list",
}
_COMPARISONS = {
    "greater_than": (">", "gt"),
    "greater_than_equal": (">=", "ge"),
    "less_than": ("<", "lt"),
    "less_than_equal": ("<=", "le"),
}
_CLOSE = 0.7  # moode and mode .89, interval and poll_interval_s .70, delay and eta .50
_MOST_PLACES = 3
_LARGEST_SHOWN = 10**15  # Python prints no number of 4,300 digits
_MOST_SHOWN = 60  # characters of a wrong value


def describe(
    error: ValidationError,
    root: type[BaseModel],
    sources: Mapping[tuple[str, ...], str],
    fallback_source: str,
) -> Iterator[str]:
    """Yield one line for each problem that pydantic found, in the order of the file.

    Args:
        error: the failed validation.
        root: the model that was validated.
        sources: "FILE:LINE" of every key that was given.
        fallback_source: for a problem of the file as a whole.
    """
    found = [_one(detail, root, sources, fallback_source) for detail in error.errors()]
    yield from (text for _, text in sorted(found, key=lambda item: item[0]))


def _one(
    detail: ErrorDetails,
    root: type[BaseModel],
    sources: Mapping[tuple[str, ...], str],
    fallback_source: str,
) -> tuple[tuple[str, int], str]:
    # "[key]": the key before it is wrong itself.
    path = tuple(str(step) for step in detail["loc"] if step != "[key]")
    above = (path[:length] for length in range(len(path), 0, -1))
    # A section that only --set or the environment has stands under its keys alone.
    below = (key for key in sources if key[: len(path)] == path)
    place = next((key for key in (*above, *below) if key in sources), None)
    source = fallback_source if place is None else sources[place]
    name, _, line = source.rpartition(":")
    order = (name, int(line)) if line.isdigit() else (source, 0)
    key = f"{'.'.join(path)}: " if path else ""  # none: a rule of the file as a whole
    return order, f"{source}: {key}{_problem(detail, path, root)}"


def _problem(detail: ErrorDetails, path: tuple[str, ...], root: type[BaseModel]) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(path, root)
    if kind == "missing":
        return "missing"
    if kind in _WANTED:
        some = _some_key(path, root) if kind == "model_type" else ""
        return f"want {_WANTED[kind]}{some}, got {_got(detail['input'])}"
    if kind in _COMPARISONS:
        sign, key = _COMPARISONS[kind]
        return f"want {sign} {context[key]:g}, got {detail['input']}"
    if kind in ("literal_error", "enum"):
        expected = str(context["expected"]).replace("'", "")
        return f"want {expected}, got {detail['input']}"
    if kind == "value_error":
        return str(context["error"])
    return detail["msg"][0].lower() + detail["msg"][1:]


def _got(value: object) -> str:
    """Return a value as an operator wrote it; a text in quotes, since "5" is no number."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str() if len(value) > _MOST_SHOWN:
            return f"the text {value[:_MOST_SHOWN]!r}..."
        case str():
            return f"the text {value!r}"
        case int() if abs(value) > _LARGEST_SHOWN:
            return "a huge number"
        case int() | float():
            return str(value)
        case Mapping():
            return "keys with values"
        case list():
            return "a list"
        case _:
            return type(value).__name__


def _some_key(path: tuple[str, ...], root: type[BaseModel]) -> str:
    """Return the first key of a section, as an example."""
    key = next(_keys_at(path, root), None)
    return f" such as {key}" if key else ""


def _unknown_key(path: tuple[str, ...], root: type[BaseModel]) -> str:
    *above, key = path
    known = list(_keys_at(path[:-1], root))
    if (nested := _nested(path, root)) is not None:
        return f"unknown key; write {nested}"
    near = difflib.get_close_matches(key, known, n=1, cutoff=_CLOSE)
    found = [".".join((*above, name)) for name in near] + sorted(_places_of(key, root))
    if 0 < len(found) <= _MOST_PLACES:
        return f"unknown key, did you mean {' or '.join(found)}?"
    return f"unknown key, known are {', '.join(sorted(known))}"


def _nested(path: tuple[str, ...], root: type[BaseModel]) -> str | None:
    """Return how a key with dots is written in YAML, "gate: {kind: ...}"; None: it is unknown."""
    *above, key = path
    *sections, name = key.split(".")
    if not sections or name not in _keys_at((*above, *sections), root):
        return None
    return f"{': {'.join((*sections, name))}: ...{'}' * len(sections)}"


def _places_of(key: str, model: type[BaseModel]) -> Iterator[str]:
    """Yield the places of a key elsewhere in the configuration, such as `gate.lease_s`."""
    for name, field in model.model_fields.items():
        if name == key:
            yield name
        for section in _models_in(field.annotation):
            below = f"{name}.NAME" if get_origin(field.annotation) is dict else name
            yield from (f"{below}.{place}" for place in _places_of(key, section))


def _keys_at(path: tuple[str, ...], root: type[BaseModel]) -> Iterator[str]:
    """Yield the keys of a section; none: there is no such section."""
    model: type[BaseModel] | None = root
    steps = iter(path)
    for step in steps:
        if model is None or step not in model.model_fields:
            return
        annotation = model.model_fields[step].annotation
        if get_origin(annotation) is dict:
            next(steps, None)  # the name of an entry
        model = next(_models_in(annotation), None)
    if model is not None:
        yield from model.model_fields


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    for option in (annotation, *get_args(annotation)):
        if isinstance(option, type) and issubclass(option, BaseModel):
            yield option
