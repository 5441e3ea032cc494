"""Hooks and scripts of an older Roost than the one that is installed."""

from pathlib import Path

import pytest
from tests.slurm_glue.doctor.test_doctor import HOOKS, FakeMachine, machine

from roost_slurm.doctor.doctor import Level
from roost_slurm.doctor.doctor_files import versions
from roost_slurm.install.install_lua import as_module, merged
from roost_slurm.site.config import SiteSettings, generate
from roost_slurm.site.inventory import Gpu, NodeGpus

__all__ = ["machine"]
CONFIG = "SLURM_CONF = /etc/slurm/slurm.conf\n"


def _install(machine: FakeMachine) -> list[str]:
    """Write the files of a site with settings of its own, and return their paths."""
    settings = SiteSettings(
        runtime_folder=Path("/var/run/roost"),
        roost_slurm=Path("/opt/site/bin/roost-slurm"),
        seats=True,
        mps=True,
        counts_models=True,
    )
    nodes = [NodeGpus("n1", (Gpu(minor_number=0, model="NVIDIA H100 80GB HBM3"),))]
    files = generate(nodes, settings)
    scripts = {name: text for name, text in files.items() if name.endswith((".sh", ".lua"))}
    scripts["roost_job_submit.lua"] = as_module(scripts["job_submit.lua"])
    for name, text in scripts.items():
        machine.write(f"/etc/slurm/{name}", text, 0o755)
    return [f"/etc/slurm/{name}" for name in scripts]


def test_files_of_this_version_are_fine_whatever_the_sites_settings(machine: FakeMachine) -> None:
    _install(machine)
    (found,) = versions(machine.looked(CONFIG))
    assert found.level is Level.FINE


@pytest.mark.parametrize("enforces", [False, True])
def test_each_file_of_another_version_is_named(machine: FakeMachine, enforces: bool) -> None:
    paths = _install(machine)
    assert len(paths) == 8
    for path in paths:
        there = machine.root / path.lstrip("/")
        before = there.read_text()
        there.write_text(before + "# a line of another version\n")
        (found,) = versions(machine.looked(CONFIG, enforces=enforces))
        assert found.text == f"of another version than this roost-slurm: {path}"
        assert found.level is (Level.PROBLEM if enforces else Level.ADVICE)
        assert "roost-slurm config" in found.cure
        there.write_text(before)


def test_scripts_of_the_site_itself_are_left_out(machine: FakeMachine) -> None:
    own = "function slurm_job_submit() return 0 end\n"
    script = merged(own, Path("/etc/slurm/roost_job_submit.lua"))
    machine.write("/etc/slurm/job_submit.lua", script)
    machine.write("/etc/slurm/cli_filter.lua", 'dofile("/etc/slurm/roost_cli_filter.lua")\n')
    machine.write(f"{HOOKS}/prolog.sh", "#!/bin/sh\n# Not Roost's.\nexit 0\n")
    assert [*versions(machine.looked(CONFIG))] == []
