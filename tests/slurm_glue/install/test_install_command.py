"""`roost-slurm install` and `uninstall` as commands."""

from pathlib import Path

import pytest
from tests.slurm_glue.install.test_install import generated, site

from roost_slurm import cli
from roost_slurm.install.install import Site

__all__ = ["generated", "site"]


def run(site: Site, command: str, *options: str) -> int:
    return cli.main([command, "--prefix", str(site.prefix), "--root", str(site.root), *options])


def test_a_plan_writes_nothing(
    site: Site, generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--role", "node", "--files", str(generated), "--plan")
    assert run(site, "install", *options) == 0
    told = capsys.readouterr().out
    assert "would write /etc/systemd/system/roost-probe.service" in told
    assert "to do: /etc/slurm/slurm.conf: add the line `Include roost.conf`" in told
    assert not site.at("/etc/systemd").exists()


def test_install_and_uninstall_leave_the_site_as_it_was(
    site: Site, generated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path for path in site.root.rglob("*") if path.is_file()}
    assert run(site, "install", "--role", "controller", "--files", str(generated)) == 0
    assert "to do: systemctl daemon-reload" in capsys.readouterr().out
    assert run(site, "uninstall") == 0
    assert "removed /etc/systemd/system/roostd.service" in capsys.readouterr().out
    assert {path for path in site.root.rglob("*") if path.is_file()} == before
    assert run(site, "uninstall") == 2


def test_nothing_named_is_an_error(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(site, "install") == 2
    assert "nothing to install" in capsys.readouterr().err


def test_a_folder_without_files_is_an_error(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(site, "install", "--files", str(tmp_path)) == 2
    assert "roost.conf: cannot be read" in capsys.readouterr().err
