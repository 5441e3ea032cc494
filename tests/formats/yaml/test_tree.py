"""YAML configuration files: types of scalars, lines of keys, and what is refused."""

import pytest

from roost_formats.yaml.tree import MAX_BYTES, MOST_LEVELS, Problem, lookup, read_scalar, read_tree


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("15", 15),
        ("060", 60),  # YAML 1.1 reads an octal number, 48
        ("-08", -8),  # YAML 1.1: no octal number
        ("+1", 1),
        ("1e3", 1000.0),  # YAML 1.1 reads a string
        (".5", 0.5),
        ("true", True),
        ("~", None),
        ("", None),
        ("off", "off"),  # YAML 1.1 reads False
        ("yes", "yes"),
        ("1:30", "1:30"),  # YAML 1.1 reads 90
        ("2024-01-01", "2024-01-01"),
        ("'15'", "15"),
        ("[1, b]", [1, "b"]),
        ("a: b: c", "a: b: c"),  # no YAML: stays text
    ],
)
def test_a_scalar_has_the_type_of_yaml_1_2(text: str, value: object) -> None:
    read = read_scalar(text)
    assert read == value
    assert type(read) is type(value)


def test_every_key_and_list_item_knows_its_line() -> None:
    tree = read_tree("a: 1\n\nb:\n  c:\n    - x\n    - y\n")

    assert tree.problems == []
    assert tree.values == {"a": 1, "b": {"c": ["x", "y"]}}
    assert tree.lines == {
        (): 1,
        ("a",): 1,
        ("b",): 3,
        ("b", "c"): 4,
        ("b", "c", "0"): 5,
        ("b", "c", "1"): 6,
    }


def test_a_key_that_stands_twice_is_a_problem_and_the_first_value_counts() -> None:
    tree = read_tree("a:\n  b: 1\n  b: 2\n")

    assert tree.values == {"a": {"b": 1}}
    assert tree.problems == [Problem(3, "a.b: stands here and in line 2")]


def test_the_same_key_in_two_sections_is_no_problem() -> None:
    assert read_tree("a: {x: 1}\nb: {x: 2}\n").problems == []


def test_an_alias_is_refused_before_anything_is_built() -> None:
    tree = read_tree("a: &big [1, 2]\nb: *big\n")

    assert tree.values == {}
    assert tree.problems == [Problem(2, "alias *big: write the value out")]


@pytest.mark.parametrize(
    ("level_count", "is_read"), [(MOST_LEVELS, True), (MOST_LEVELS + 1, False)]
)
def test_nesting_is_read_down_to_the_deepest_level_allowed(level_count: int, is_read: bool) -> None:
    inner = level_count - 1  # the file itself is the first level
    tree = read_tree(f"a: {'[' * inner}{']' * inner}")
    assert (tree.problems == []) is is_read
    assert bool(tree.values) is is_read


@pytest.mark.parametrize(("excess", "problems"), [(0, []), (1, [Problem(1, "larger than 1 MiB")])])
def test_a_file_is_read_up_to_the_largest_size_allowed(
    excess: int, problems: list[Problem]
) -> None:
    line = "a: 1 #"
    tree = read_tree(line + "x" * (MAX_BYTES - len(line) + excess))
    assert tree.problems == problems


def test_a_key_that_is_no_word_is_named_with_its_section() -> None:
    tree = read_tree("a:\n  [1]: 2\n  b: 3\n")

    assert tree.problems == [Problem(2, "a: want a plain word as a key")]
    assert tree.values == {"a": {"b": 3}}


def test_an_empty_file_is_no_problem_and_has_no_values() -> None:
    tree = read_tree("# nothing here\n")
    assert (tree.values, tree.problems) == ({}, [])


def test_lookup_follows_the_path_and_names_the_path_that_leads_nowhere() -> None:
    values = {"slurm": {"lease_s": 60}}

    assert lookup(values, ("slurm", "lease_s")) == 60
    assert lookup(values, ()) is values
    with pytest.raises(KeyError):
        lookup(values, ("slurm", "lease"))
    with pytest.raises(KeyError, match=r"slurm\.lease_s\.unit"):
        lookup(values, ("slurm", "lease_s", "unit"))
