import shutil
import subprocess
from pathlib import Path

import pytest
from tests.conftest import missing

UNIT = Path(__file__).parents[2] / "daemon" / "systemd" / "roostd.service"
EXPOSURE_LIMIT = 20  # 2.0; slurmctld's own unit has 9.2


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The unit as if roostd were installed: the program it starts exists."""
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze is not installed (Debian: systemd)")
    unit = tmp_path / "roostd.service"
    unit.write_text(UNIT.read_text().replace("/usr/bin/roostd", "/bin/true"))
    return unit


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_systemd_finds_nothing_wrong_with_the_unit(installed: Path) -> None:
    verdict = analyze("verify", str(installed))

    assert (verdict.returncode, verdict.stderr) == (0, "")


def test_the_unit_is_hardened(installed: Path) -> None:
    verdict = analyze("security", "--offline=true", f"--threshold={EXPOSURE_LIMIT}", str(installed))

    assert verdict.returncode == 0, verdict.stdout[-200:]
