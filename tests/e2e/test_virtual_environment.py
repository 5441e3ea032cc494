"""A virtual environment in place of packages: its units and hooks, and their removal."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.containers import Engine
from tests.e2e.install_page import run
from tests.e2e.package_site import CONTROLLER, MACHINES, NODES, PackageSite

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
SUITE = "bookworm"  # the packages' test covers both; only Python's version would differ


@pytest.fixture(scope="module")
def site(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PackageSite]:
    engine.build([SUITE], "clean")
    engine.run(str(ROOT / "deploy" / "debian" / "build.sh"), SUITE)
    folder = tmp_path_factory.mktemp("wheels")
    folder.chmod(0o755)
    built = ROOT / "build" / "deb" / SUITE
    shutil.copytree(built / "wheels", folder / "wheels")
    for wheel in (built / "roost").glob("roost-*.whl"):
        shutil.copy(wheel, folder / "wheels")
    shutil.copy(next((built / "wheels").glob("[Pp]y[Yy][Aa][Mm][Ll]-*.whl")), folder / "yaml.zip")
    with PackageSite(engine, SUITE, folder) as site:
        yield site


def probe_count(site: PackageSite) -> int:
    shown = site.shell(CONTROLLER, "/opt/roost/bin/roostctl status --json")
    return int(json.loads(shown)["probe_count"])


def test_the_units_of_an_environment_start(site: PackageSite) -> None:
    before = {machine: files(site, machine) for machine in MACHINES}
    run(site, "environment")
    site.wait_until(lambda: probe_count(site) == 2, "the probes do not report")
    for machine, unit in ((CONTROLLER, "roostd"), *((node, "roost-probe") for node in NODES)):
        shown = site.shell(machine, f"systemctl show -P ExecStart -P FragmentPath {unit}")
        assert f"path=/opt/roost/bin/{unit} " in shown
        assert f"/etc/systemd/system/{unit}.service" in shown
        told = site.shell(
            machine, f"systemd-analyze verify /etc/systemd/system/{unit}.service 2>&1"
        )
        assert told == ""
        assert files(site, machine) > before[machine]
    for node in NODES:
        assert site.shell(node, "stat -c '%U %a' /run/roost/job-map").strip() == "root 755"


def files(site: PackageSite, machine: str) -> set[str]:
    """What Roost may have written, wherever it is."""
    places = "/etc/systemd /etc/tmpfiles.d /etc/roost /etc/default /etc/slurm /usr/bin /var/lib"
    found = site.shell(
        machine, f"find {places} -name '*roost*' -not -path '*/roost*/*'", check=False
    )
    return set(found.split())


def test_hooks_name_the_programs_of_the_environment_and_jobs_run_through_them(
    site: PackageSite,
) -> None:
    run(site, "prepare")
    hooks = site.shell(CONTROLLER, "grep -h ^ROOST_SLURM= /etc/slurm/hooks/*.sh").split()
    assert set(hooks) == {"ROOST_SLURM=/opt/roost/bin/roost-slurm"}
    job = site.submit("-w gpu2 --gres=gpu:2")
    site.wait_running(job)
    assert job in site.shell("gpu2", "cat /var/log/site-prolog")
    site.shell(CONTROLLER, f"scancel {job}")
    for machine in MACHINES:
        told = json.loads(
            site.shell(machine, "/opt/roost/bin/roost-slurm doctor --json", check=False)
        )
        assert [row for row in told["findings"] if row["level"] == "problem"] == []


def test_removed_nothing_is_left_and_jobs_run(site: PackageSite) -> None:
    refused = site.shell(CONTROLLER, "/opt/roost/bin/roost-slurm uninstall 2>&1", check=False)
    assert "still names" in refused
    site.shell(
        CONTROLLER,
        "sed -i '/^Include roost.conf/d; s|/etc/slurm/hooks/site-prolog.sh|/etc/slurm/site-prolog|'"
        " /etc/slurm/slurm.conf && systemctl restart slurmctld",
    )
    site.wait_until(lambda: bool(site.node_states()), "slurmctld is not back")
    for node in NODES:
        site.shell(node, "systemctl restart slurmd")
    run(site, "environment-remove")
    for machine in MACHINES:
        left = files(site, machine) - {"/etc/slurm/roost"}  # the page's own --out folder
        kept = {path for path in left if path.endswith(".before-roost") or ".d" in path}
        assert left <= kept, left
        units = site.shell(machine, "systemctl list-unit-files 'roost*' --no-legend", check=False)
        assert units == ""
    assert "roost" not in site.shell(CONTROLLER, "cat /etc/slurm/job_submit.lua")
    site.wait_running(site.submit("--gres=gpu:1", seconds=60))
