"""`roost-slurm release` for a person; test_orphaned_pins.py has `unpin`."""

import subprocess
import time
from pathlib import Path

import pytest
from tests.slurm_glue.guards.test_left_leases import NOW_S, Answering, leased
from tests.slurm_glue.guards.test_orphaned_pins import beat

from roost_slurm import cli
from roost_slurm.guards import left_leases, orphaned_pins, seat_guards
from roost_slurm.site import submit_script
from roost_slurm.text.commands import Argv


def test_the_command_names_the_jobs_and_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm = Answering(leased(1), leased(2))
    monkeypatch.setattr(left_leases.end_leases, "__defaults__", (slurm,))
    monkeypatch.setattr(left_leases.end_leases, "__kwdefaults__", {"wall_clock": lambda: NOW_S})
    assert cli.main(["release", "--runtime-folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == ["1", "2"]
    in_two_hours = leased(3, until="2027-01-15T10:00:00")
    slurm = Answering(in_two_hours)
    monkeypatch.setattr(left_leases.end_leases, "__defaults__", (slurm,))
    assert cli.main(["release", "--runtime-folder", str(tmp_path), "--lease-s", "7200"]) == 0
    assert [update[1] for update in slurm.updates] == ["StartTime=now"]
    beat(tmp_path, NOW_S)
    assert cli.main(["release", "--runtime-folder", str(tmp_path)]) == cli.BAD_INPUT
    assert "stop it first" in capsys.readouterr().err

    def silent(argv: Argv, timeout_s: float) -> str:
        raise subprocess.TimeoutExpired(argv, timeout_s)

    beat(tmp_path, NOW_S - 60)
    monkeypatch.setattr(left_leases.end_leases, "__defaults__", (silent,))
    assert cli.main(["release", "--runtime-folder", str(tmp_path)]) == cli.BAD_INPUT
    assert "scontrol ping" in capsys.readouterr().err


@pytest.mark.parametrize("lease_s", ["0", "-1", "nan", "inf", "86401", "2h"])
def test_a_length_that_no_lease_has_is_refused(
    capsys: pytest.CaptureFixture[str], lease_s: str
) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["release", f"--lease-s={lease_s}"])
    assert end.value.code == cli.BAD_INPUT
    assert f"{lease_s}: want 1 to 86400 seconds" in capsys.readouterr().err


@pytest.mark.parametrize("script", ["job_submit.lua", "roost_job_submit.lua"])
def test_a_wrong_folder_takes_no_pin_of_a_roostd_that_lives(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str,
) -> None:
    live = tmp_path / "live"
    live.mkdir()
    (tmp_path / script).write_text(submit_script.render(live / "heartbeat", live / "events"))
    beat(live, time.time())
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    asked = list[Argv]()

    def run(argv: Argv, timeout_s: float) -> str:
        asked.append(argv)
        raise subprocess.TimeoutExpired(argv, timeout_s)

    for command in (seat_guards.guard_seats, orphaned_pins.unpin_orphans):
        monkeypatch.setattr(command, "__defaults__", (run,))
    assert cli.main(["unpin", "--runtime-folder", "/nowhere"]) == cli.BAD_INPUT
    assert f"roostd lives and beats in {live}" in capsys.readouterr().err
    assert asked == []

    beat(live, time.time() - 60)  # it is dead there too
    assert cli.main(["unpin", "--runtime-folder", "/nowhere"]) == cli.BAD_INPUT
    assert len(asked) == 1
