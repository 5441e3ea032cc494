import shutil
import subprocess
from pathlib import Path

import pytest
from tests.conftest import missing

from roostd.rpc.access.limits import probe_options

UNIT = Path(__file__).parents[2] / "daemon" / "systemd" / "roostd.service"
UNPIN = UNIT.parents[2] / "slurm_glue" / "systemd"
EXPOSURE_LIMIT = 20  # 2.0; slurmctld's own unit has 9.2


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The unit as if roostd were installed: the program it starts exists."""
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze is not installed (Debian: systemd)")
    unit = tmp_path / "roostd.service"
    unit.write_text(UNIT.read_text().replace("/usr/bin/roostd", "/bin/true"))
    return unit


def settings(file: Path) -> dict[str, str]:
    """What a unit file says, by SECTION.KEY; of a key that stands twice the last."""
    found, section = dict[str, str](), ""
    for line in file.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[f"{section}.{key}"] = value
    return found


def test_systemd_never_gives_up() -> None:
    said = settings(UNIT)

    assert said["Unit.StartLimitIntervalSec"] == "0"
    assert said["Service.Restart"] == "always"
    assert float(said["Service.RestartSec"]) > 0
    assert not [key for key in said if "Prevent" in key]


def test_systemd_ends_a_daemon_that_hangs_for_half_a_minute() -> None:
    said = settings(UNIT)
    assert (said["Service.Type"], said["Service.WatchdogSec"]) == ("notify", "30")
    assert "Service.WatchdogSignal" not in said  # SIGABRT: a daemon that is stopped ends too


def test_a_start_that_keeps_failing_is_tried_less_often() -> None:
    said = settings(UNIT.with_name("roostd.service.d") / "restart-steps.conf")

    assert int(said["Service.RestartSteps"]) > 1
    most_s = float(said["Service.RestartMaxDelaySec"])
    assert most_s > float(settings(UNIT)["Service.RestartSec"])


def test_the_unit_allows_files_for_as_many_probes_as_can_be_configured() -> None:
    limit = int(settings(UNIT)["Service.LimitNOFILE"])
    most = 100_000  # listen.max_node_count
    options = dict(probe_options(most, limit))
    assert options["grpc.max_allowed_incoming_connections"] > 2 * most


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_systemd_finds_nothing_wrong_with_the_unit(installed: Path) -> None:
    verdict = analyze("verify", str(installed))

    assert (verdict.returncode, verdict.stderr) == (0, "")


@pytest.mark.parametrize("name", ["roost-unpin.service", "roost-unpin.timer"])
def test_systemd_finds_nothing_wrong_with_the_unpin_units(installed: Path, name: str) -> None:
    for path in UNPIN.iterdir():
        text = path.read_text().replace("/usr/bin/roost-slurm", "/bin/true")
        (installed.parent / path.name).write_text(text)
    verdict = analyze("verify", str(installed.parent / name))

    assert (verdict.returncode, verdict.stderr) == (0, "")


def test_the_unpin_unit_needs_no_roostd_and_is_hardened(installed: Path) -> None:
    said = settings(UNPIN / "roost-unpin.service")
    assert not [key for key in said if key in ("Unit.Requires", "Unit.BindsTo", "Unit.PartOf")]
    path = installed.parent / "roost-unpin.service"
    path.write_text((UNPIN / path.name).read_text().replace("/usr/bin/roost-slurm", "/bin/true"))
    verdict = analyze("security", "--offline=true", f"--threshold={EXPOSURE_LIMIT}", str(path))
    assert verdict.returncode == 0, verdict.stdout[-200:]


def test_the_unit_is_hardened(installed: Path) -> None:
    verdict = analyze("security", "--offline=true", f"--threshold={EXPOSURE_LIMIT}", str(installed))

    assert verdict.returncode == 0, verdict.stdout[-200:]
