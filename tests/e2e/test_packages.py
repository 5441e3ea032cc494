"""The Debian packages on clean machines, and every command of docs/install.md, while jobs run."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.containers import SUITES, Engine
from tests.e2e.package_site import CONTROLLER, MACHINES, NODES, PackageSite

pytestmark = [pytest.mark.compose, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "install.md").read_text()
PROMPT = re.compile(r"^(control1|each-node|gpu\d)# (.*)$")


def commands(section: str) -> list[tuple[str, str]]:
    """The commands of a block of docs/install.md, each with the machine that its prompt names."""
    block = PAGE.partition(f"<!-- test: {section} -->\n```console\n")[2].partition("\n```")[0]
    found = [PROMPT.match(line) for line in block.splitlines()]
    return [(match[1], match[2]) for match in found if match]


@pytest.fixture(scope="module", params=list(SUITES))
def site(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PackageSite]:
    engine.build([request.param], "clean")
    engine.run(str(ROOT / "deploy" / "debian" / "build.sh"), request.param)
    folder = tmp_path_factory.mktemp("packages")
    folder.chmod(0o755)
    for package in (ROOT / "dist" / request.param).glob("*.deb"):
        shutil.copy(package, folder)
    with PackageSite(engine, request.param, folder) as site:
        yield site


@pytest.fixture(scope="module")
def jobs(site: PackageSite) -> list[str]:
    """Jobs that run and wait throughout: typed, untyped, and more than fit."""
    running = [site.submit("-w gpu1 --gres=gpu:a100:4"), site.submit("-w gpu1 --gres=gpu:2")]
    site.wait_running(*running)
    return [*running, site.submit("-w gpu1 --gres=gpu:4"), site.submit("-N2 --gres=gpu:a100:8")]


def run(site: PackageSite, section: str) -> int:
    """Run a block of the page and return how many commands it has."""
    found = commands(section)
    for place, command in found:
        for machine in NODES if place == "each-node" else (place,):
            environment = "" if machine == CONTROLLER else ". /etc/environment-of-the-driver; "
            has_driver = "test -e /etc/environment-of-the-driver && "
            site.shell(
                machine,
                f"({has_driver}{environment}true) || :; {environment if 'roost-probe --' in command else ''}{command}",
            )
            if machine != CONTROLLER and "install -y" in command:
                site.add_gpus(machine)
    return len(found)


def test_ten_commands_lead_to_shadow_and_no_job_notices(site: PackageSite, jobs: list[str]) -> None:
    before = site.states()
    assert run(site, "shadow") <= 10
    assert site.states() == before
    site.wait_until(
        lambda: "2 probes" in site.shell(CONTROLLER, "roostctl status"), "the probes do not report"
    )


def test_nothing_was_enabled_by_the_installation() -> None:
    enabled = [command for _, command in commands("shadow") if "enable" in command]
    assert len(enabled) == 2


def test_manual_pages_and_completion_are_there(site: PackageSite) -> None:
    for page in ("roostctl", "roost-sim", "roost-slurm", "roostd"):
        assert page in site.shell(CONTROLLER, f"man {page} | cat")
    site.shell(CONTROLLER, "bash -n /usr/share/bash-completion/completions/roostctl")
    site.shell(CONTROLLER, "logrotate --debug /etc/logrotate.d/roost")
    for machine in MACHINES:
        site.shell(machine, "test -d /usr/share/doc/roost/docs && roost-slurm --version")
    for node in NODES:
        assert site.shell(node, "stat -c '%U %a' /run/roost/job-map").strip() == "root 755"
