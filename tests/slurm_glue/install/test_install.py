"""What `roost-slurm install` writes, keeps and takes away."""

from pathlib import Path

import pytest
from tests.slurm_glue.site.test_inventory import node

from roost_slurm.install.install import (
    InstallError,
    Site,
    plan_slurm,
    plan_units,
    read_manifest,
    uninstall,
    write,
)
from roost_slurm.site import config

SITE_SCRIPT = "function slurm_job_submit(j, p, u) return slurm.SUCCESS end\nreturn slurm.SUCCESS\n"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    programs = tmp_path / "opt" / "venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("roostd", "roost-probe", "roost-slurm"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    site = Site(prefix=programs.parent, root=tmp_path / "root")
    slurm = site.at("/etc/slurm")
    slurm.mkdir(parents=True)
    (slurm / "slurm.conf").write_text("ClusterName=x\nProlog=/site/prolog\n")
    return site


@pytest.fixture
def generated(site: Site, tmp_path: Path) -> Path:
    settings = config.SiteSettings(roost_slurm=site.prefix / "bin" / "roost-slurm")
    config.write(config.generate([node("n1")], settings), tmp_path / "made")
    return tmp_path / "made"


def test_units_have_the_paths_of_the_environment(site: Site) -> None:
    write(site, plan_units(site, ["controller", "node"]))
    units = site.at("/etc/systemd/system")
    for unit, program in (
        ("roostd.service", "roostd"),
        ("roost-unpin.service", "roost-slurm"),
        ("roost-probe.service", "roost-probe"),
    ):
        text = (units / unit).read_text()
        assert f"ExecStart={site.prefix}/bin/{program} " in text
        assert "/usr/bin/roost" not in text
    assert site.at("/etc/default/roost-probe").read_text().count("ROOST_DAEMON=\n") == 1
    assert "mode: shadow" in site.at("/etc/roost/roostd.yaml").read_text()
    assert "/run/roost/job-map" in site.at("/etc/tmpfiles.d/roost-node.conf").read_text()


def test_units_of_a_package_stay_in_force(site: Site) -> None:
    packaged = site.at("/usr/lib/systemd/system/roostd.service")
    packaged.parent.mkdir(parents=True)
    packaged.touch()
    plan = plan_units(site, ["controller"])
    assert Path("/etc/systemd/system/roostd.service") not in plan.files
    assert "roostd.service: Roost's package has it" in plan.kept


def test_a_configuration_that_is_there_is_kept(site: Site) -> None:
    mine = site.at("/etc/roost/roostd.yaml")
    mine.parent.mkdir(parents=True)
    mine.write_text("mode: enforce\n")
    write(site, plan_units(site, ["controller"]))
    assert mine.read_text() == "mode: enforce\n"


@pytest.mark.parametrize("prefix", ["/root/venv", "/home/me/venv"])
def test_an_environment_that_services_cannot_see_is_refused(prefix: str) -> None:
    with pytest.raises(InstallError, match="ProtectHome"):
        plan_units(Site(prefix=Path(prefix)), ["node"])


def test_a_missing_program_is_named_with_its_cure(site: Site) -> None:
    (site.prefix / "bin" / "roostd").unlink()
    with pytest.raises(InstallError, match=r"roostd: not there; cure: .*pip install"):
        plan_units(site, ["controller"])


def test_a_site_without_scripts_gets_roosts(site: Site, generated: Path) -> None:
    plan = plan_slurm(site, generated)
    write(site, plan)
    slurm = site.at("/etc/slurm")
    assert (slurm / "job_submit.lua").read_text() == (generated / "job_submit.lua").read_text()
    hook = slurm / "hooks" / "epilog.sh"
    assert f"ROOST_SLURM={site.prefix}/bin/roost-slurm" in hook.read_text()
    assert hook.stat().st_mode & 0o777 == 0o755
    assert '"/site/prolog" "$@"' in (slurm / "hooks" / "site-prolog.sh").read_text()
    assert plan.to_do == [
        "/etc/slurm/slurm.conf:2: change Prolog=/site/prolog to"
        " Prolog=/etc/slurm/hooks/site-prolog.sh".replace("/etc", f"{site.root}/etc", 1),
        "/etc/slurm/slurm.conf: add the line `Include roost.conf` at its end",
    ]


def test_a_sites_own_script_keeps_its_lines_and_is_given_back(site: Site, generated: Path) -> None:
    own = site.at("/etc/slurm/job_submit.lua")
    own.write_text(SITE_SCRIPT)
    write(site, plan_slurm(site, generated))
    assert set(SITE_SCRIPT.splitlines()) <= set(own.read_text().splitlines())
    assert "roost_job_submit.lua" in own.read_text()
    removed = uninstall(site)
    assert own.read_text() == SITE_SCRIPT
    assert removed.merged == [Path("/etc/slurm/job_submit.lua")]
    left = {path.name for path in site.at("/etc/slurm").rglob("*") if path.is_file()}
    assert left == {"slurm.conf", "job_submit.lua"}


def test_a_sites_script_may_be_a_link_and_in_any_encoding(site: Site, generated: Path) -> None:
    shared, link = site.at("/shared.lua"), site.at("/etc/slurm/job_submit.lua")
    own = SITE_SCRIPT.encode() + b"-- Schl\xfcssel\n"
    shared.write_bytes(own)
    link.symlink_to(shared)
    write(site, plan_slurm(site, generated))
    assert link.is_symlink()
    assert b"-- Schl\xfcssel\n" in shared.read_bytes() != own
    uninstall(site)
    assert link.is_symlink()
    assert shared.read_bytes() == own


def test_slurmds_copy_of_the_controllers_files_is_left_alone(site: Site, generated: Path) -> None:
    """It is replaced at each `scontrol reconfigure`, and Slurm reads hooks from elsewhere."""
    cache, link = site.at("/var/spool/slurmd/conf-cache"), site.at("/run/slurm/conf")
    cache.mkdir(parents=True)
    (cache / "slurm.conf").write_text("ClusterName=x\n")
    link.parent.mkdir(parents=True)
    link.symlink_to(cache)
    copy = Site(prefix=site.prefix, root=site.root, slurm_folder=Path("/run/slurm/conf"))
    with pytest.raises(InstallError, match=r"a copy of .*; cure: run this on the controller"):
        plan_slurm(copy, generated)


def test_a_second_run_changes_nothing(site: Site, generated: Path) -> None:
    site.at("/etc/slurm/job_submit.lua").write_text(SITE_SCRIPT)
    assert write(site, plan_slurm(site, generated))
    assert write(site, plan_slurm(site, generated)) == []
    assert read_manifest(site)["/etc/slurm/job_submit.lua"] == "merged"


def test_a_file_of_the_site_is_never_replaced_without_force(site: Site, generated: Path) -> None:
    mine = site.at("/etc/slurm/hooks/prolog.sh")
    mine.parent.mkdir()
    mine.write_text("#!/bin/sh\nmine\n")
    with pytest.raises(InstallError, match=r"hooks/prolog\.sh: there, and not written by Roost"):
        write(site, plan_slurm(site, generated))
    assert not site.at("/etc/slurm/roost.conf").exists()
    write(site, plan_slurm(site, generated), force=True)
    assert "mine" not in mine.read_text()


def test_uninstall_keeps_what_was_changed_since(site: Site, generated: Path) -> None:
    write(site, plan_slurm(site, generated))
    site.at("/etc/slurm/hooks/epilog.sh").write_text("#!/bin/sh\nmine\n")
    assert uninstall(site).kept == ["/etc/slurm/hooks/epilog.sh: changed since it was installed"]
    assert site.at("/etc/slurm/hooks/epilog.sh").exists()


@pytest.mark.parametrize(
    "line",
    [
        "Include roost.conf",
        "Include roost.conf # why",
        "Epilog=/etc/slurm/hooks/epilog.sh",
    ],
)
def test_uninstall_waits_until_slurm_needs_nothing(site: Site, generated: Path, line: str) -> None:
    write(site, plan_slurm(site, generated))
    conf = site.at("/etc/slurm/slurm.conf")
    conf.write_text(f"{conf.read_text()}{line}\n")
    with pytest.raises(InstallError, match=r"slurm\.conf:3: still names"):
        uninstall(site)
    assert site.at("/etc/slurm/roost.conf").exists()


def test_nothing_to_uninstall_is_said(site: Site) -> None:
    with pytest.raises(InstallError, match="has written nothing here"):
        uninstall(site)
