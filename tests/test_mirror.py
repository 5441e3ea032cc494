"""Every source module has a test under its name, or stands in EXCEPTIONS with the reason.

The test of `simulator/roost_sim/traces/rows.py` is `tests/simulator/traces/test_rows.py`. Not
counted: `__init__.py`, generated code, and the `testing` packages, which tests use everywhere.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "engine": "roost_engine",
    "formats": "roost_formats",
    "daemon": "roostd",
    "simulator": "roost_sim",
    "cli": "roostctl",
    "probes": "roost_probe",
    "slurm_glue": "roost_slurm",
    "training": "roost_train",
}

_DATA = "data only; read by the tests of the modules that use it"
_RECORD = "a record without logic; the tests of its users build it"
_TYPES = "types without logic; used by almost every test"


def _within(test: str) -> str:
    """A reason: the module is tested only together with others, by that test."""
    return f"no test of its own so far; covered by tests/{test}"


# Module, without the suffix: why it has no test of its own.
EXCEPTIONS = {
    "engine/roost_engine/domain/actions": _TYPES,
    "engine/roost_engine/domain/events": _TYPES,
    "engine/roost_engine/domain/errors": _TYPES,
    "engine/roost_engine/domain/pair_correction": _RECORD,
    "engine/roost_engine/policies/neighbour_losses": _TYPES,
    "engine/roost_engine/policies/preemption_protocols": _TYPES,
    "engine/roost_engine/policies/protocols": _TYPES,
    "engine/roost_engine/scoring/interference": _TYPES,
    "daemon/roostd/slurm/port": _TYPES,
    "simulator/roost_sim/errors": _TYPES,
    "simulator/roost_sim/exit_codes": _DATA,
    "simulator/roost_sim/figures/outcome": _RECORD,
    "simulator/roost_sim/information/policy_information": _RECORD,
    "simulator/roost_sim/traces/arrival": _RECORD,
    "simulator/roost_sim/traces/fitted_histories": _DATA,
    "simulator/roost_sim/traces/fitted_traces": _DATA,
    "simulator/roost_sim/worlds/speed/dally_models": _DATA,
    "simulator/roost_sim/worlds/speed/fitted_profiles": _DATA,
    "probes/roost_probe/errors": _TYPES,
    "training/roost_train/errors": _TYPES,
}


def modules(root: Path = ROOT) -> dict[str, Path]:
    """The place of each module's test, by the module's path without the suffix."""
    found = {}
    for folder, package in PACKAGES.items():
        top = root / folder / package
        for path in sorted(top.rglob("*.py")):
            inside = path.relative_to(top)
            if path.name == "__init__.py" or {"testing", "testing.py"} & set(inside.parts):
                continue
            module = path.relative_to(root).with_suffix("").as_posix()
            found[module] = root / "tests" / folder / inside.parent / f"test_{path.name}"
    return found


MODULES = modules()


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_module_has_a_test_under_its_name_or_a_reason_for_none(module: str) -> None:
    test = MODULES[module]
    if module in EXCEPTIONS:
        assert not test.exists(), f"{module} has a test meanwhile: take it out of EXCEPTIONS"
    else:
        where = test.relative_to(ROOT)
        assert test.is_file(), f"{module}.py has no test: write {where}, or give a reason"


def test_exceptions_name_modules_that_exist() -> None:
    assert {module for module in EXCEPTIONS if module not in MODULES} == set()


def test_tests_that_reasons_name_exist() -> None:
    named = {word for reason in EXCEPTIONS.values() for word in reason.split() if "/" in word}
    assert {name for name in named if not (ROOT / name).is_file()} == set()


def test_a_module_without_a_test_is_found(tmp_path: Path) -> None:
    package = tmp_path / "cli" / "roostctl"
    package.mkdir(parents=True)
    for name in ("__init__.py", "testing.py", "colours.py"):
        (package / name).touch()
    expected = tmp_path / "tests" / "cli" / "test_colours.py"
    assert modules(tmp_path) == {"cli/roostctl/colours": expected}
