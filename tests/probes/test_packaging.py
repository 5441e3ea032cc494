"""What ships beside the code: the unit file, the docs page."""

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.conftest import missing

from roost_probe.cli import _parser

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "probes/systemd/roost-probe.service"


def test_the_docs_name_every_option() -> None:
    page = (ROOT / "docs/probe.md").read_text()
    options = [
        option
        for action in _parser()._actions
        for option in action.option_strings
        if option.startswith("--") and not isinstance(action, argparse._HelpAction)
    ]

    assert [option for option in options if f"`{option}" not in page] == []


@pytest.fixture
def installed_unit(tmp_path: Path) -> Path:
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze is not installed")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/usr/bin/roost-probe", "/bin/true"))
    return unit


def test_systemd_accepts_the_unit(installed_unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", str(installed_unit)], capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_is_little_exposed(installed_unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(installed_unit)],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout[-300:]
