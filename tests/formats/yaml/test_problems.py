"""Problems of a configuration in words: the file and line, the key, and the value wanted."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from roost_formats.yaml.problems import describe

Sources: TypeAlias = Mapping[tuple[str, ...], str]


def _even(value: int) -> int:
    if value % 2:
        raise ValueError(f"want an even number, got {value}")
    return value


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Partition(Strict):
    mode: Literal["off", "on"] = "off"
    share_frac: Annotated[float, Field(ge=0, le=1)] = 1.0


class Root(Strict):
    name: str = ""
    count: Annotated[int, Field(gt=0)] = 1
    even: Annotated[int, AfterValidator(_even)] = 0
    is_open: bool = True
    pause_s: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    main: Partition | None = None
    partitions: dict[str, Partition] = {}


class Demanding(Strict):
    needed: int


def problems(
    values: Mapping[str, Any],
    sources: Sources | None = None,
    root: type[BaseModel] = Root,
) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        root.model_validate(values)
    return list(describe(caught.value, root, sources or {}, "f:1"))


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"name": 3}, "f:1: name: want text, got 3"),
        ({"name": None}, "f:1: name: want text, got nothing"),
        ({"is_open": [1]}, "f:1: is_open: want true or false, got a list"),
        ({"count": "many"}, "f:1: count: want a whole number, got the text 'many'"),
        ({"count": 0}, "f:1: count: want > 0, got 0"),
        ({"pause_s": float("inf")}, "f:1: pause_s: want a finite number, got inf"),
        ({"main": 3}, "f:1: main: want keys with values such as mode, got 3"),
        ({"count": 2.5}, "f:1: count: want a whole number, got 2.5"),
        ({"name": True}, "f:1: name: want text, got true"),
        ({"name": 10**5000}, "f:1: name: want text, got a huge number"),
        ({"count": "x" * 99}, f"f:1: count: want a whole number, got the text {'x' * 60!r}..."),
        ({"even": 3}, "f:1: even: want an even number, got 3"),
        ({"main": {"share_frac": 1.5}}, "f:1: main.share_frac: want <= 1, got 1.5"),
        ({"main": {"share_frac": -0.5}}, "f:1: main.share_frac: want >= 0, got -0.5"),
        ({"main": {"mode": "maybe"}}, "f:1: main.mode: want off or on, got maybe"),
    ],
)
def test_a_wrong_value_is_told_with_the_value_wanted(values: dict[str, Any], problem: str) -> None:
    assert problems(values) == [problem]


def test_a_rule_of_the_whole_file_names_no_key() -> None:
    class Pair(Strict):
        left: int = 0
        right: int = 0

        @model_validator(mode="after")
        def _one_of_two(self) -> "Pair":
            raise ValueError("want left or right")

    assert problems({}, root=Pair) == ["f:1: want left or right"]


def test_a_missing_key_is_named() -> None:
    assert problems({}, root=Demanding) == ["f:1: needed: missing"]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"cuont": 1}, "f:1: cuont: unknown key, did you mean count?"),
        ({"main": {"mod": "on"}}, "f:1: main.mod: unknown key, did you mean main.mode?"),
        (
            {"partitions": {"gpu": {"mod": "on"}}},
            "f:1: partitions.gpu.mod: unknown key, did you mean partitions.gpu.mode?",
        ),
        (
            {"partitions": {"gpu": {"zzz": 1}}},
            "f:1: partitions.gpu.zzz: unknown key, known are mode, share_frac",
        ),
        ({"main.mode": "on"}, "f:1: main.mode: unknown key; write main: {mode: ...}"),
        (
            {"partitions.gpu.mode": "on"},
            "f:1: partitions.gpu.mode: unknown key; write partitions: {gpu: {mode: ...}}",
        ),
        (
            {"count.mode": 1},
            "f:1: count.mode: unknown key, known are count, even, is_open, main, name, partitions,"
            " pause_s",
        ),
        # What only shares a few letters is not meant: `eta` is not `delay`.
        (
            {"partitions": {"gpu": {"rare": 1}}},
            "f:1: partitions.gpu.rare: unknown key, known are mode, share_frac",
        ),
        ({"main": {"even": 2}}, "f:1: main.even: unknown key, did you mean even?"),
        (
            {"mode": "on"},
            "f:1: mode: unknown key, did you mean main.mode or partitions.NAME.mode?",
        ),
    ],
)
def test_an_unknown_key_is_told_with_a_key_that_is_close_or_its_section_or_all_keys(
    values: dict[str, Any], problem: str
) -> None:
    assert problems(values) == [problem]


def test_problems_stand_in_the_order_of_lines_not_of_the_model() -> None:
    sources: dict[tuple[str, ...], str] = {
        ("name",): "f:10",
        ("count",): "f:9",
        ("is_open",): "--set is_open",
    }

    assert problems({"name": 1, "count": "x", "is_open": 3}, sources) == [
        "--set is_open: is_open: want true or false, got 3",
        "f:9: count: want a whole number, got the text 'x'",
        "f:10: name: want text, got 1",
    ]


def test_a_problem_has_the_line_of_the_nearest_key_that_was_given() -> None:
    sources: Sources = {("partitions",): "f:2", ("partitions", "gpu"): "f:4"}

    assert problems({"partitions": {"gpu": {"mode": 1}}}, sources) == [
        "f:4: partitions.gpu.mode: want off or on, got 1"
    ]
