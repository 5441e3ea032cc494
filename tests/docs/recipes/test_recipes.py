"""Every recipe names files and a test that exist, and is linked where people look for it."""

import pytest
from tests.docs.recipes.recipe import FOLDER, ROOT, files_of, named_tests

RECIPES = (
    "add-a-baseline.md",
    "add-a-gate.md",
    "add-a-telemetry-column.md",
    "add-an-order-that-is-an-onnx-model.md",
    "add-what-a-slurm-release-does-differently.md",
)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_names_files_and_tests_that_exist(name: str) -> None:
    files, tests = files_of(name), named_tests(name)
    assert files
    assert tests
    assert [path for path in files + tests if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/README.md"])
def test_every_recipe_is_linked(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    recipes = {path.name for path in FOLDER.glob("*.md")}
    assert set(RECIPES) <= recipes
    assert {name for name in recipes if f"recipes/{name})" not in text} == set()
